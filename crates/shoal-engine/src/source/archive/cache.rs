//! The cache of open archives and their plans, so that no partition opens or plans an archive again.
//!
//! A plan is cached without an open file, because the listing may be a thousand small archives ahead of the lanes. All
//! lanes share an archive in use. An archive that was evicted is planned again. Not here: what a plan holds
//! (`plan.rs`).

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use super::archive_file::ArchiveFile;
use super::find::Find;
use super::format::{Archive, Format};
use super::options::ArchiveOptions;
use super::plan::Plan;
use super::registry::NONE_OF_THEM;
use super::signature;
use super::subdirectories::Subdirectories;
use crate::error::{Error, Kind, Result};
use crate::fs::read::{self, Facts, unreadable};
use crate::poison::ignore_poison;

/// Most plans in the cache: as many partitions as a listing may be ahead of the lanes, each of one archive.
const PLANS_MAX: usize = 1100;
/// Most bytes of plans in the cache, without unpacked archives. The last plan is kept whatever its size.
const BYTES_MAX: usize = 32 << 20;
/// Most bytes of unpacked archives that all plans in use keep. An archive that does not fit is unpacked a second time
/// when its entries are fetched. A little less than 32 MiB, because there the window of an xz stream doubles to 64 MiB,
/// while the bytes kept of an archive that turns out too long are still in memory.
const UNPACKED_MAX: usize = 31 << 20;
/// Bytes at the start of an archive that show its format.
const HEAD: usize = 512;

/// A plan, and the archive while it is in use.
struct CachedPlan {
    path: Box<[u8]>,
    facts: Facts,
    format: usize,
    plan: Arc<Plan>,
    /// The archive, if it is in use.
    open: Weak<Archive>,
    /// Its number in the order of listing.
    rank: u64,
}

#[derive(Default)]
struct Plans {
    cached: VecDeque<CachedPlan>,
    /// Number of archives listed.
    listed: u64,
    /// The highest rank that a lane has requested. Archives before it are in use, done, or not wanted.
    begun: u64,
}

/// The cache, with all else that the listing and the lanes share.
pub(super) struct ArchiveCache {
    pub find: Find,
    pub formats: Vec<Box<dyn Format>>,
    pub options: ArchiveOptions,
    plans: Mutex<Plans>,
    /// All plans that keep an unpacked archive, including those that are evicted but in use.
    unpacked: Mutex<Vec<Weak<Plan>>>,
    /// Held while a plan is made, so that two lanes that miss the same plan do not both make it.
    planning: Mutex<()>,
    /// The subdirectories of `into_subdirectories`, as the first listing of this source found them.
    subdirectories: OnceLock<Subdirectories>,
}

impl ArchiveCache {
    pub fn new(find: Find, formats: Vec<Box<dyn Format>>, options: ArchiveOptions) -> ArchiveCache {
        let (plans, unpacked, planning, subdirectories) = Default::default();
        ArchiveCache { find, formats, options, plans, unpacked, planning, subdirectories }
    }

    /// Returns the subdirectories of `into_subdirectories`. Finds the archives itself if no listing has done so, as
    /// when only failures are retried.
    ///
    /// # Errors
    /// As of [`Find::all`].
    pub fn subdirectories(&self) -> Result<&Subdirectories> {
        if self.subdirectories.get().is_none() {
            let found = self.find.all_at_once()?;
            let _ = self.subdirectories.set(self.find.subdirectories(&found)); // fails if the listing was faster
        }
        Ok(self.subdirectories.get_or_init(Subdirectories::default))
    }

    /// Stores the subdirectories of a listing. Returns whether they are those of earlier listings.
    pub fn is_as_before(&self, subdirectories: Subdirectories) -> bool {
        *self.subdirectories.get_or_init(|| Subdirectories::clone(&subdirectories)) == subdirectories
    }

    /// Returns the archive at a path with its plan, for a lane.
    ///
    /// # Errors
    /// Of class `Object` if this archive cannot be read.
    pub fn archive(&self, path: &[u8]) -> Result<Arc<Archive>> {
        self.planned(path, &Arc::default(), true)
    }

    /// The same for the listing. Planning fails soon after `stop` is set.
    pub fn listed(&self, path: &[u8], stop: &Arc<AtomicBool>) -> Result<Arc<Archive>> {
        self.planned(path, stop, false)
    }

    fn planned(&self, path: &[u8], stop: &Arc<AtomicBool>, begun: bool) -> Result<Arc<Archive>> {
        if let Some(archive) = self.open_archive(path, None, begun) {
            return Ok(archive);
        }
        let _planning = ignore_poison(self.planning.lock());
        let mut file = self.open(path, stop.clone())?;
        if let Some(archive) = self.open_archive(path, Some(&file.facts), begun) {
            return Ok(archive);
        }
        let known = self
            .plans()
            .cached
            .iter()
            .find(|one| *one.path == *path && one.facts == file.facts)
            .map(|one| (one.format, one.plan.clone()));
        let (format, plan) = match known {
            Some(known) => known,
            None => {
                file.room = self.room();
                let format = self.format(&file)?;
                let plan = self.formats[format].plan(&file, &self.options).map_err(|error| self.meant(error, &file))?;
                file.unchanged()?;
                let plan = Arc::new(plan);
                if !plan.unpacked.is_empty() {
                    ignore_poison(self.unpacked.lock()).push(Arc::downgrade(&plan));
                }
                (format, plan)
            }
        };
        let archive = Arc::new(Archive { file, plan, format });
        self.store(&archive, begun);
        Ok(archive)
    }

    fn plans(&self) -> MutexGuard<'_, Plans> {
        ignore_poison(self.plans.lock())
    }

    /// Returns how many bytes of an unpacked archive there is room for. Evicts plans that the lanes have finished.
    fn room(&self) -> usize {
        let Plans { cached, begun, .. } = &mut *self.plans();
        cached.retain(|one| one.plan.unpacked.is_empty() || one.rank > *begun || one.open.strong_count() > 0);
        let mut unpacked = ignore_poison(self.unpacked.lock());
        unpacked.retain(|plan| plan.strong_count() > 0);
        let held: usize = unpacked.iter().filter_map(Weak::upgrade).map(|plan| plan.unpacked.len()).sum();
        UNPACKED_MAX.saturating_sub(held)
    }

    /// Returns the archive if it is in use, and with `facts`, if it is still that file.
    fn open_archive(&self, path: &[u8], facts: Option<&Facts>, begun: bool) -> Option<Arc<Archive>> {
        let plans = &mut *self.plans();
        let mut same =
            plans.cached.iter().filter(|one| *one.path == *path && facts.is_none_or(|facts| *facts == one.facts));
        let (archive, rank) = same.find_map(|one| Some((one.open.upgrade()?, one.rank)))?;
        if begun {
            plans.begun = plans.begun.max(rank);
        }
        Some(archive)
    }

    fn store(&self, archive: &Arc<Archive>, begun: bool) {
        let Plans { cached: plans, listed, begun: last } = &mut *self.plans();
        let known = plans.iter().find(|one| one.path == archive.file.path).map(|one| one.rank);
        let rank = match (known, begun) {
            (Some(rank), _) => rank,
            (None, true) => *last, // planned again: its rank is unknown
            (None, false) => {
                *listed += 1;
                *listed
            }
        };
        if begun {
            *last = rank.max(*last);
        }
        plans.retain(|one| one.path != archive.file.path);
        plans.push_back(CachedPlan {
            path: archive.file.path.clone(),
            facts: archive.file.facts,
            format: archive.format,
            plan: archive.plan.clone(),
            open: Arc::downgrade(archive),
            rank,
        });
        let mut bytes: usize = plans.iter().map(|one| one.plan.weight()).sum();
        while plans.len() > PLANS_MAX || (bytes > BYTES_MAX && plans.len() > 1) {
            bytes -= plans.pop_front().map_or(0, |one| one.plan.weight());
        }
    }

    fn open(&self, path: &[u8], stop: Arc<AtomicBool>) -> Result<ArchiveFile> {
        let fd = read::open_path(Path::new(OsStr::from_bytes(path))).map_err(|errno| unreadable(errno, None))?;
        let facts = read::facts(std::os::fd::AsFd::as_fd(&fd)).map_err(|errno| unreadable(errno, None))?;
        if !facts.regular {
            return Err(Error::new(Kind::Archive, "not a regular file"));
        }
        let name = self.find.name(path);
        let prefix = match self.options.into_subdirectories {
            true => [self.subdirectories()?.name(&name), b"/"].concat().into(),
            false => Box::default(),
        };
        Ok(ArchiveFile { fd, path: path.into(), name: name.into(), prefix, facts, stop, room: 0 })
    }

    /// Returns the index of its format: the first that recognizes it, or the last, which may begin with any bytes.
    fn format(&self, file: &ArchiveFile) -> Result<usize> {
        let mut head = [0; HEAD];
        let held = file.read_at(&mut head, 0)?;
        let known = self.formats.iter().position(|format| format.begins(&head[..held]));
        Ok(known.unwrap_or(self.formats.len() - 1))
    }

    /// The error to report if planning has failed: the file has changed, or is not an archive at all.
    fn meant(&self, error: Error, file: &ArchiveFile) -> Error {
        let mut head = [0; HEAD];
        let begins = |head: &[u8]| self.formats.iter().any(|format| format.begins(head));
        match file.unchanged() {
            Err(changed) => changed,
            Ok(()) if error.kind() != Kind::Archive => error,
            Ok(()) => match file.read_at(&mut head, 0) {
                Ok(held) if !begins(&head[..held]) => {
                    let several = self.formats.len() > 1;
                    let why = match signature::of(&head[..held]) {
                        Some(what) if several => format!("{NONE_OF_THEM}, but {what}"),
                        Some(what) => format!("not an archive of the requested kind, but {what}"),
                        None if several => format!("{NONE_OF_THEM}: {}", error.why()),
                        None => return error,
                    };
                    Error::new(Kind::Archive, why)
                }
                _ => error,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::super::find::ArchivesFrom;
    use super::super::registry::FormatsIn;
    use super::*;

    /// A compressed tar archive of one file of zeros.
    fn packed(bytes: usize) -> Vec<u8> {
        let mut header = [0; 512];
        header[0] = b'z';
        header[124..136].copy_from_slice(format!("{bytes:011o} ").as_bytes());
        header[148..156].copy_from_slice(b"        ");
        header[156] = b'0';
        let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(&header).unwrap();
        packer.write_all(&vec![0; bytes.next_multiple_of(512) + 1024]).unwrap();
        packer.finish().unwrap()
    }

    #[test]
    fn what_is_kept_unpacked_has_one_limit_for_all_archives_and_is_given_back() {
        let temp = tempfile::tempdir().unwrap();
        let paths: Vec<_> = (0..12).map(|number| temp.path().join(format!("{number}.tar.gz"))).collect();
        let bytes = packed(10 << 20);
        for path in &paths {
            let fd = std::fs::File::create(path).unwrap();
            rustix::io::write(&fd, &bytes).unwrap();
        }
        let find = Find::new(ArchivesFrom::Paths(paths.clone())).unwrap();
        let cache = ArchiveCache::new(find, FormatsIn::Tar.formats(), ArchiveOptions::default());
        let path = |number: usize| paths[number].as_os_str().as_bytes();
        let unpacked = |archive: &Archive| archive.plan.unpacked.len() >> 20;
        let listed = |number: usize| unpacked(&cache.listed(path(number), &Arc::default()).unwrap());
        // The listing is ahead of the lanes: three archives fit.
        assert_eq!([0, 1, 2, 3, 4].map(listed), [10, 10, 10, 0, 0]);
        // Archives that lanes have open keep their bytes, whatever is listed.
        let open = [0, 1, 2].map(|number| cache.archive(path(number)).unwrap());
        assert_eq!(open.each_ref().map(|archive| unpacked(archive)), [10, 10, 10]);
        assert_eq!([5, 6].map(listed), [0, 0]);
        // Two of them are finished.
        let last = open.into_iter().nth(1).unwrap();
        assert_eq!([7, 8, 9].map(listed), [10, 10, 0]);
        assert_eq!(unpacked(&last), 10);
        // A lane is past those that were listed, so they are no longer wanted.
        let beyond = cache.archive(path(9)).unwrap();
        assert_eq!([unpacked(&beyond), listed(10), listed(11)], [0, 10, 10]);
    }
}
