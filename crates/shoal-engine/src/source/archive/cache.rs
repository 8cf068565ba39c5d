//! Archives that were opened and plans that were made, so that neither is done again for each partition.
//!
//! A plan is kept without its file being open: the listing may be a thousand small archives ahead. An archive in use is
//! shared by all lanes. What was forgotten is planned again.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

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

/// Plans kept: as many as the engine lets a listing be ahead of the lanes, each an archive of one partition.
const PLANS_MAX: usize = 1100;
/// Bytes of plans kept beside the last one, which is kept whatever it takes; without what is kept unpacked.
const BYTES_MAX: usize = 32 << 20;
/// Bytes of packed archives that are kept unpacked at a time, in all plans that are alive: an archive that finds no room is
/// unpacked a second time when its entries are fetched. A little less than 32 MiB: the window of an xz stream doubles to 64
/// there, and what is kept of one that is too long would still be held.
const UNPACKED_MAX: usize = 31 << 20;
/// First bytes of an archive by which its kind is told.
const HEAD: usize = 512;

struct CachedPlan {
    path: Box<[u8]>,
    facts: Facts,
    format: usize,
    plan: Arc<Plan>,
    /// Somebody reads it now.
    open: Weak<Archive>,
    /// Its rank in the order in which archives were listed.
    rank: u64,
}

#[derive(Default)]
struct Plans {
    cached: VecDeque<CachedPlan>,
    /// Places given out.
    listed: u64,
    /// The last rank that a lane has asked for: archives before it are in the work of some lane, done, or not wanted.
    begun: u64,
}

/// What the listing and all lanes share.
pub(super) struct ArchiveCache {
    pub find: Find,
    pub formats: Vec<Box<dyn Format>>,
    pub options: ArchiveOptions,
    plans: Mutex<Plans>,
    /// All plans that hold an archive unpacked, also those that are only held by whoever reads them.
    unpacked: Mutex<Vec<Weak<Plan>>>,
    /// One plan is made at a time: two lanes that miss the same one must not both make it.
    planning: Mutex<()>,
    /// Where entries go with `into_subdirectories`: as the first listing of this source saw it.
    subdirectories: OnceLock<Subdirectories>,
}

impl ArchiveCache {
    pub fn new(find: Find, formats: Vec<Box<dyn Format>>, options: ArchiveOptions) -> ArchiveCache {
        let (plans, unpacked, planning, subdirectories) = Default::default();
        ArchiveCache { find, formats, options, plans, unpacked, planning, subdirectories }
    }

    /// Where entries go with `into_subdirectories`. Asked for before a listing has found the archives, where failures alone
    /// are tried again, it finds them itself.
    ///
    /// # Errors
    /// As of [`Find::all`].
    pub fn subdirectories(&self) -> Result<&Subdirectories> {
        if self.subdirectories.get().is_none() {
            let found = self.find.all_at_once()?;
            let _ = self.subdirectories.set(self.find.subdirectories(&found)); // or the listing was faster
        }
        Ok(self.subdirectories.get_or_init(Subdirectories::default))
    }

    /// Notes where the entries of these archives go. Whether that is where those of the same archives went so far.
    pub fn is_as_before(&self, subdirectories: Subdirectories) -> bool {
        *self.subdirectories.get_or_init(|| Subdirectories::clone(&subdirectories)) == subdirectories
    }

    /// The archive at a path, planned, for a lane.
    ///
    /// # Errors
    /// Of class `Object` where this archive cannot be read.
    pub fn archive(&self, path: &[u8]) -> Result<Arc<Archive>> {
        self.planned(path, &Arc::default(), true)
    }

    /// The same for the listing; planning it ends with an error soon after `stop` was set.
    pub fn listed(&self, path: &[u8], stop: &Arc<AtomicBool>) -> Result<Arc<Archive>> {
        self.planned(path, stop, false)
    }

    fn planned(&self, path: &[u8], stop: &Arc<AtomicBool>, begun: bool) -> Result<Arc<Archive>> {
        if let Some(archive) = self.open_archive(path, None, begun) {
            return Ok(archive);
        }
        let _planning = self.planning.lock().unwrap_or_else(PoisonError::into_inner);
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
                    self.unpacked.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&plan));
                }
                (format, plan)
            }
        };
        let archive = Arc::new(Archive { file, plan, format });
        self.store(&archive, begun);
        Ok(archive)
    }

    fn plans(&self) -> MutexGuard<'_, Plans> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of an archive that there is room for, unpacked; plans that lanes are done with make some.
    fn room(&self) -> usize {
        let Plans { cached, begun, .. } = &mut *self.plans();
        cached.retain(|one| one.plan.unpacked.is_empty() || one.rank > *begun || one.open.strong_count() > 0);
        let mut unpacked = self.unpacked.lock().unwrap_or_else(PoisonError::into_inner);
        unpacked.retain(|plan| plan.strong_count() > 0);
        let held: usize = unpacked.iter().filter_map(Weak::upgrade).map(|plan| plan.unpacked.len()).sum();
        UNPACKED_MAX.saturating_sub(held)
    }

    /// The archive, where somebody has it open, and it is this file.
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
            (None, true) => *last, // planned anew: it says nothing of those that were listed
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

    /// Which of the formats it is: one that knows its first bytes, or the last, which may begin with anything.
    fn format(&self, file: &ArchiveFile) -> Result<usize> {
        let mut head = [0; HEAD];
        let held = file.read_at(&mut head, 0)?;
        let known = self.formats.iter().position(|format| format.begins(&head[..held]));
        Ok(known.unwrap_or(self.formats.len() - 1))
    }

    /// What a failed plan means where the archive may be of several kinds.
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

    /// A tar archive of one file of zeros, packed.
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
        // Ahead of the lanes: three have room.
        assert_eq!([0, 1, 2, 3, 4].map(listed), [10, 10, 10, 0, 0]);
        // Lanes have some open: they hold what they hold, whatever is listed.
        let open = [0, 1, 2].map(|number| cache.archive(path(number)).unwrap());
        assert_eq!(open.each_ref().map(|archive| unpacked(archive)), [10, 10, 10]);
        assert_eq!([5, 6].map(listed), [0, 0]);
        // Done with two of them.
        let last = open.into_iter().nth(1).unwrap();
        assert_eq!([7, 8, 9].map(listed), [10, 10, 0]);
        assert_eq!(unpacked(&last), 10);
        // A lane is beyond those that were listed: nobody wants them any more.
        let beyond = cache.archive(path(9)).unwrap();
        assert_eq!([unpacked(&beyond), listed(10), listed(11)], [0, 10, 10]);
    }
}
