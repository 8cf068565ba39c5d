//! Objects that count because another object of their name had written their very bytes. If that one is withdrawn, they
//! fail with it, because its file goes. Not here: withdrawing (`lane/settle.rs`), recording it (`commit.rs`).

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use xxhash_rust::xxh3::xxh3_64;

use super::message::Gone;
use crate::journal::NAMES_MAX;
use crate::poison::ignore_poison;

/// What a run knows of them, by the hash of the name.
#[derive(Default)]
pub(crate) struct Doubles(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// Each as it will have to be recorded, and whether that has been done.
    doubles: HashMap<u64, Vec<(Gone, Arc<AtomicBool>)>>,
    count: u64,
    /// Names of which an object was withdrawn: what then has the bytes of its file fails as well.
    withdrawn: HashSet<u64>,
}

/// Whether an object can count as a double.
pub(crate) enum Double {
    /// Yes. It is set once the object is withdrawn.
    Counted(Arc<AtomicBool>),
    /// No: the object of which it has the bytes was withdrawn.
    Withdrawn,
}

impl Doubles {
    /// Remembers an object that has the bytes of another one of its name.
    pub fn add(&self, gone: Gone) -> Double {
        let known = &mut *ignore_poison(self.0.lock());
        let name = xxh3_64(&gone.withdrawn.failed.name);
        if known.withdrawn.contains(&name) {
            return Double::Withdrawn;
        }
        let flag = Arc::new(AtomicBool::new(false));
        // As many as the journal stores by name. Those above stay as they are, and so does any file then.
        known.count += 1;
        if known.count <= NAMES_MAX {
            known.doubles.entry(name).or_default().push((gone, flag.clone()));
        }
        Double::Counted(flag)
    }

    /// An object of this name is withdrawn: takes those that have its bytes, and says whether they are all.
    pub fn take(&self, name: &[u8]) -> (Vec<Gone>, bool) {
        let known = &mut *ignore_poison(self.0.lock());
        let name = xxh3_64(name);
        known.withdrawn.insert(name);
        let doubles = known.doubles.remove(&name).unwrap_or_default();
        let doubles = doubles.into_iter().filter(|(_, is_gone)| !is_gone.swap(true, Relaxed)).map(|(gone, _)| gone);
        (doubles.collect(), known.count <= NAMES_MAX)
    }
}
