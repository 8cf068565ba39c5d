//! The destination's clock, as the model bends it: pieces of the kernel's time, each shifted, frozen or in coarse steps.
//! Times before the first piece, such as a program sets them, mean themselves.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

pub const SECOND: i64 = 1_000_000_000;

#[derive(Clone, Copy)]
enum Shown {
    /// The kernel's time and this.
    Shifted(i64),
    /// Always this.
    Frozen(i64),
}

pub struct Clock {
    /// From when on, by the kernel's clock, and what is shown then.
    pieces: Arc<Mutex<Vec<(i64, Shown)>>>,
    /// It moves by this much at a time.
    step: i64,
    probe: PathBuf,
    /// The lowest time shown so far: below it no file has a time.
    lowest: i64,
}

impl Clock {
    pub fn new(directory: &Path, step: i64) -> Clock {
        let clock = Clock { pieces: Arc::default(), step, probe: directory.join("probe"), lowest: 0 };
        let now = clock.stamp();
        clock.pieces.lock().unwrap().push((now, Shown::Shifted(0)));
        Clock { lowest: now, ..clock }
    }

    pub fn warp(&self) -> Arc<dyn Fn(i64) -> i64 + Send + Sync> {
        let (pieces, step) = (self.pieces.clone(), self.step);
        Arc::new(move |kernel| shown(&pieces.lock().unwrap(), step, kernel))
    }

    /// What a file made now is stamped with, by the kernel's clock.
    fn stamp(&self) -> i64 {
        let file = File::create(&self.probe).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap(); // moves the time of change, whatever it is set to
        let facts = file.metadata().unwrap();
        facts.ctime() * SECOND + facts.ctime_nsec()
    }

    /// Waits until a file made now has another stamp than all that was made before; that stamp.
    fn tick(&self) -> i64 {
        let last = self.pieces.lock().unwrap().last().map_or(0, |(from, _)| *from);
        let before = self.stamp().max(last);
        loop {
            let now = self.stamp();
            if now > before {
                return now;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    /// What it shows, later than anything that was made before.
    pub fn now(&self) -> i64 {
        let kernel = self.tick();
        shown(&self.pieces.lock().unwrap(), self.step, kernel)
    }

    /// It shows `to` from now on.
    pub fn set(&mut self, to: i64) {
        let kernel = self.tick();
        self.lowest = self.lowest.min(to);
        self.pieces.lock().unwrap().push((kernel, Shown::Shifted(to - kernel)));
    }

    /// It will show another time by this much, so many nanoseconds from now.
    pub fn jump_soon(&mut self, by: i64, soon: i64) {
        let kernel = self.tick();
        let to = shown(&self.pieces.lock().unwrap(), 1, kernel) + by;
        self.lowest = self.lowest.min(to);
        self.pieces.lock().unwrap().push((kernel + soon, Shown::Shifted(to - kernel)));
    }

    /// It stands still, until it is set.
    pub fn freeze(&mut self) {
        let kernel = self.tick();
        let to = shown(&self.pieces.lock().unwrap(), self.step, kernel);
        self.pieces.lock().unwrap().push((kernel, Shown::Frozen(to)));
    }

    /// A time that it has never come near.
    pub fn untouched(&self) -> i64 {
        self.lowest - 1_000 * SECOND
    }
}

fn shown(pieces: &[(i64, Shown)], step: i64, kernel: i64) -> i64 {
    match pieces.iter().rev().find(|(from, _)| *from <= kernel) {
        None => kernel,
        Some((_, Shown::Frozen(at))) => *at,
        Some((_, Shown::Shifted(by))) => (kernel + by).div_euclid(step) * step,
    }
}
