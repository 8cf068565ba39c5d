//! Source: archives. A glob or a list of zip and tar archives in one run; every entry is an object.
//!
//! Here: the options, the source, and the interface of the formats ([`Format`], [`Unpacker`]). `find.rs` finds the
//! archives, `subdirectories.rs` keeps their names apart, `kind.rs` recognizes other files, `plan.rs` has the entries
//! of an archive, `modes.rs` the permissions of its directories, `names.rs` decodes names, `limits.rs` has the limits,
//! `listing.rs` cuts an archive into partitions, `run.rs` has the entries of a partition, `fetch.rs` fetches them,
//! `decode.rs` decompresses streams, `windows.rs` makes decoders that need much memory take turns. Not here: how a zip
//! or a tar is read (`source/zip/`, `source/tar/`), which name is safe (`Name`). An entry never becomes a link, device
//! or pipe, and nothing is mapped into memory.

pub(crate) mod decode;
mod fetch;
mod find;
mod keep;
mod kind;
pub(crate) mod limits;
mod listing;
mod modes;
pub(crate) mod names;
pub(crate) mod plan;
mod run;
mod seen;
mod subdirectories;
pub(crate) mod windows;

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::SystemTime;

pub use self::find::ArchivesFrom;
use self::keep::Keep;
use self::plan::{Member, Plan};
use self::seen::Seen;
use super::tar::Tar;
use super::zip::Zip;
use super::{Behind, Fetcher, Job, Lane, Listing, LocalFuture, Source};
use crate::error::{Error, Kind, Result};
use crate::fs::read::{self, Facts, unreadable};
use crate::partition::{Cursor, Key, Partition};
use crate::session::Twice;

/// How archives are read, and their limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveOptions {
    /// Put the entries of `x.zip` below `x/`, or below `x.zip/` if there is an `x.tar` as well.
    pub into_subdirectories: bool,
    /// Encoding of entry names that are not marked as UTF-8.
    pub encoding: Encoding,
    /// How to treat a backslash in a name.
    pub backslashes: Backslashes,
    /// Most bytes that one archive may unpack to.
    pub max_size: Option<u64>,
    /// Most bytes that an archive may unpack to, for each byte of its own. Checked only above 64 MiB of unpacked bytes.
    pub max_ratio: u64,
    /// Most entries of one archive.
    pub max_entries: u64,
    /// Most components of a name.
    pub max_depth: u32,
    /// Read archives whose entries overlap.
    pub allow_overlap: bool,
}

impl Default for ArchiveOptions {
    fn default() -> ArchiveOptions {
        ArchiveOptions {
            into_subdirectories: false,
            encoding: Encoding::Auto,
            backslashes: Backslashes::Refuse,
            max_size: None,
            max_ratio: 100, // text in good order comes to 20, deflate ends at 1,032
            max_entries: 1_000_000,
            max_depth: 100,
            allow_overlap: false,
        }
    }
}

/// Encoding of entry names that are not marked as UTF-8.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// In a zip: UTF-8 if the name is valid UTF-8 and was created on Unix, else code page 437. In a tar: the bytes
    /// unchanged.
    #[default]
    Auto,
    /// This encoding, by its label (`shift_jis`, `windows-1251`).
    Label(String),
}

/// How to treat a backslash in a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backslashes {
    /// The entry is refused.
    #[default]
    Refuse,
    /// As a separator, like `/`.
    Separator,
}

impl Backslashes {
    /// The value of the option.
    pub fn as_str(self) -> &'static str {
        match self {
            Backslashes::Refuse => "refuse",
            Backslashes::Separator => "separator",
        }
    }
}

/// Which kinds of archives are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormatsIn {
    /// Zip.
    Zip,
    /// Tar, compressed or not.
    Tar,
    /// Either, according to the first bytes of each.
    Any,
}

impl FormatsIn {
    /// The prefix before the colon, also used in identities.
    pub fn as_str(self) -> &'static str {
        match self {
            FormatsIn::Zip => "zip",
            FormatsIn::Tar => "tar",
            FormatsIn::Any => "unzip",
        }
    }

    /// Zip comes last: it may begin with anything.
    fn formats(self) -> Vec<Box<dyn Format>> {
        match self {
            FormatsIn::Zip => vec![Box::new(Zip::default())],
            FormatsIn::Tar => vec![Box::new(Tar::default())],
            FormatsIn::Any => vec![Box::new(Tar::default()), Box::new(Zip::default())],
        }
    }
}

/// Archives as a source.
pub struct Archives {
    keep: Arc<Keep>,
    seen: Arc<Seen>,
    identity: String,
}

impl Archives {
    /// Checks that the paths exist; it reads nothing yet.
    ///
    /// # Errors
    /// [`Kind::Config`] if a path does not exist, a glob is not valid, or the encoding is unknown.
    pub fn new(from: ArchivesFrom, formats: FormatsIn, options: ArchiveOptions) -> Result<Archives> {
        names::table(&options.encoding)?;
        let find = find::Find::new(from)?;
        let identity = identity(&find.identity(), formats, &options);
        let keep = Arc::new(Keep::new(find, formats.formats(), options));
        Ok(Archives { keep, seen: Arc::default(), identity })
    }
}

/// With the options that change what is written; limits do not: what they refuse is a failure and tried again.
fn identity(what: &str, formats: FormatsIn, options: &ArchiveOptions) -> String {
    let mut identity = format!("{}:{what}", formats.as_str());
    if options.into_subdirectories {
        identity.push_str(" into_subdirectories");
    }
    if let Encoding::Label(label) = &options.encoding {
        identity.push_str(&format!(" encoding={}", label.to_ascii_lowercase()));
    }
    if options.backslashes != Backslashes::Refuse {
        identity.push_str(&format!(" backslashes={}", options.backslashes.as_str()));
    }
    identity
}

impl Source for Archives {
    fn identity(&self) -> String {
        self.identity.clone()
    }

    fn list(&self, after: Option<Cursor>) -> Result<Box<dyn Listing>> {
        Ok(Box::new(listing::OfArchives::new(self.keep.clone(), self.seen.clone(), after)?))
    }

    fn behind(&self) -> Behind {
        Behind::Proven
    }

    fn select(&self, locators: &[Box<[u8]>]) -> Result<Partition> {
        let payload = run::of_locators(locators.iter().map(|locator| &**locator)).into();
        let key = Key::of(locators.iter().map(|locator| &**locator));
        let len = Some(locators.len() as u32);
        Ok(Partition { seq: 0, key, after: Cursor::default(), next: None, payload, len })
    }

    fn fetcher(&self, _lane: usize) -> Result<Box<dyn Fetcher>> {
        Ok(Box::new(fetch::Fetch::new(self.keep.clone())))
    }

    fn remarks(&self) -> Vec<String> {
        self.seen.remarks()
    }

    fn twice(&self) -> Twice {
        Twice::Repeated
    }

    fn has_times(&self) -> bool {
        true
    }

    fn is_network(&self) -> bool {
        false
    }

    fn lists_below(&self, directory: &Path) -> bool {
        self.keep.find.lists_below(directory)
    }
}

/// A kind of archive.
pub(crate) trait Format: Send + Sync {
    /// Whether an archive that begins with these bytes (512, or all there are) is of this kind.
    fn begins(&self, head: &[u8]) -> bool;
    /// Reads what an archive holds, without unpacking it where it need not be: pushes every entry and calls
    /// [`Plan::checked`]. An error of class `Object` is about the whole archive; it becomes one failed entry.
    fn plan(&self, file: &ArchiveFile, options: &ArchiveOptions) -> Result<Plan>;
    /// The part that lives on one lane.
    fn unpacker(&self) -> Box<dyn Unpacker>;
    /// Whether an archive may be one stream, so that an entry is found only by reading all before it.
    fn is_stream(&self) -> bool {
        false
    }
    /// When an entry was last changed.
    fn modified(&self, member: &Member) -> Option<SystemTime> {
        member.last_modified()
    }
}

/// Unpacks entries for one lane.
pub(crate) trait Unpacker {
    /// Unpacks one member, which is a [`plan::What::File`], and answers the job exactly once: up to `WHOLE_MAX` bytes
    /// through `lane.whole`, else through `lane.begin` and `lane.finished`.
    fn fetch<'a>(
        &'a mut self,
        lane: &'a dyn Lane,
        job: Job,
        archive: &'a Arc<Archive>,
        member: u32,
    ) -> LocalFuture<'a, ()>;
}

/// An archive that has been opened, and what it holds.
pub(crate) struct Archive {
    pub file: ArchiveFile,
    pub plan: Arc<Plan>,
    /// Which of the formats that are let in.
    format: usize,
}

impl Archive {
    /// An archive of the only format.
    #[cfg(any(test, feature = "testing"))]
    pub fn of_one(file: ArchiveFile, plan: Plan) -> Archive {
        Archive { file, plan: Arc::new(plan), format: 0 }
    }
}

/// An archive on disk, held open, read by position.
pub(crate) struct ArchiveFile {
    pub fd: OwnedFd,
    /// Where it was found: what a locator begins with.
    pub path: Box<[u8]>,
    /// What it is called when it fails as a whole.
    pub name: Box<[u8]>,
    /// What its entries' names begin with: empty, or a directory with its slash.
    pub prefix: Box<[u8]>,
    /// What was known of it when it was opened.
    pub facts: Facts,
    /// Set once nobody waits for its plan any more: then reading it fails.
    pub stop: Arc<AtomicBool>,
    /// Bytes of it, unpacked, that its plan may keep.
    pub room: usize,
}

impl ArchiveFile {
    /// Its length when it was opened.
    pub fn len(&self) -> u64 {
        self.facts.size
    }

    /// Fills `into` from byte `at` on, or as much of it as there is before the end.
    ///
    /// # Errors
    /// [`Kind::ReadFailed`] and its like; [`Kind::Interrupted`] once `stop` is set.
    pub fn read_at(&self, into: &mut [u8], at: u64) -> Result<usize> {
        if self.stop.load(Relaxed) {
            return Err(Error::new(Kind::Interrupted, "stopped while the archive's entries were listed"));
        }
        let mut held = 0;
        while held < into.len() {
            let from = at + held as u64;
            match read::read_at(self.fd.as_fd(), &mut into[held..], from).map_err(|e| unreadable(e, Some(from)))? {
                0 => break,
                read => held += read,
            }
        }
        Ok(held)
    }

    /// Fills all of `into`.
    ///
    /// # Errors
    /// As `read_at`; [`Kind::Changed`] where the file ends before that.
    pub fn read_exact_at(&self, into: &mut [u8], at: u64) -> Result<()> {
        match self.read_at(into, at)? == into.len() {
            true => Ok(()),
            false => Err(self.cut_short()),
        }
    }

    /// It ends before the length it had.
    pub fn cut_short(&self) -> Error {
        let why = format!("the archive was truncated while it was read: it had {} bytes", self.facts.size);
        Error::new(Kind::Changed, why).hint("run again when nothing writes to it")
    }

    /// Whether it is still what it was when it was opened.
    ///
    /// # Errors
    /// [`Kind::Changed`] where it is not.
    pub fn unchanged(&self) -> Result<()> {
        let now = read::facts(self.fd.as_fd()).map_err(|errno| unreadable(errno, None))?;
        match (now.size, now.changed) == (self.facts.size, self.facts.changed) {
            true => Ok(()),
            false if now.size < self.facts.size => Err(self.cut_short()),
            false => Err(Error::new(Kind::Changed, "the archive changed while it was read")
                .hint("run again when nothing writes to it")),
        }
    }
}
