//! Names of withdrawn objects: they were written, and are failures. Nothing is stored under such a name before the wrong row
//! is removed (`mend.rs`).

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use shoal_engine::sink::{StateRow, WithdrawnObject};
use shoal_engine::{Error, Kind, Result};
use xxhash_rust::xxh3::xxh3_128;

use super::shard::lock;
use super::state::{self, Withdrawn};

#[derive(Default)]
pub(super) struct WithdrawnNames {
    any: AtomicBool,
    /// By the hash of the name and the length: how many rows this session has written.
    rows: Mutex<BTreeMap<(u128, u64), u64>>,
}

impl WithdrawnNames {
    /// Takes rows of earlier sessions that could not be removed.
    pub fn new(left: impl IntoIterator<Item = Withdrawn>) -> WithdrawnNames {
        let rows: BTreeMap<_, _> = left.into_iter().map(|rows| ((rows.name, rows.length), 0)).collect();
        WithdrawnNames { any: AtomicBool::new(!rows.is_empty()), rows: Mutex::new(rows) }
    }

    pub fn any(&self) -> bool {
        self.any.load(SeqCst)
    }

    /// What the journal remembers of objects that are withdrawn now.
    pub fn add(&self, session: &str, objects: &[WithdrawnObject]) -> Vec<StateRow> {
        let mut rows = lock(&self.rows);
        let add = |object: &WithdrawnObject| {
            let (name, length) = (xxh3_128(object.key.as_bytes()), object.fingerprint.bytes);
            self.any.store(true, SeqCst);
            let count = rows.entry((name, length)).or_default();
            *count += 1;
            state::withdrawn(&Withdrawn { session: session.to_owned(), name, length }, *count)
        };
        // What was kept is a row of an earlier session.
        objects.iter().filter(|object| !object.kept).map(add).collect()
    }

    /// Whether an object of this name may be stored.
    ///
    /// # Errors
    /// If it may not: it is a failure until the wrong row is removed.
    pub fn check(&self, name: &[u8]) -> Result<()> {
        if !self.any() {
            return Ok(());
        }
        let hash = xxh3_128(name);
        if lock(&self.rows).range((hash, 0)..=(hash, u64::MAX)).next().is_none() {
            return Ok(());
        }
        let why = "an earlier answer for this name was wrong, and its row could not be removed yet";
        let hint = "run the same command again; if that does not help, copy into a new directory";
        Err(Error::new(Kind::NameConflict, why).hint(hint))
    }
}
