//! Removes files of objects that were written and then became failures. Not here: when that happens
//! (`engine/commit.rs`).

use super::destination::Destination;
use super::directory::open_below;
use super::layout::{partition_path, retried_path};
use crate::name::Name;
use crate::options::Layout;
use crate::partition::RETRIED_FROM;
use crate::session::{Twice, Whose};

impl Destination {
    /// Removes the file of an object that was written with the partition `seq`. The file stays if it cannot be removed,
    /// if this run did not write it, or if it may be another object of this name. The failure is recorded in any case.
    pub fn withdraw(&self, seq: u64, name: &Name) {
        if self.rules.twice != Twice::SameObject {
            return;
        }
        let (part, (directory, leaf)) = (self.options.part, name.split());
        let directory = match self.options.layout {
            Layout::Names => directory.map(<[u8]>::to_vec),
            Layout::Partition if seq >= RETRIED_FROM => Some(retried_path(part, directory, name)),
            Layout::Partition => {
                let path = partition_path(part, seq).into_bytes();
                Some(directory.map_or(path.clone(), |below| [&path, below].join(&b'/')))
            }
        };
        let opened = directory.map(|path| open_below(&self.root.dir, &path)).transpose();
        let Ok(opened) = opened else { return };
        let dir = opened.as_ref().unwrap_or(&self.root.dir);
        let is_of_this_run = dir.look(leaf).is_ok_and(|look| {
            let times = self.times(&look);
            look.kind.is_file() && self.sessions.whose(times.born, times.changed) != Whose::Other
        });
        if is_of_this_run {
            let _ = dir.remove(leaf);
        }
    }
}
