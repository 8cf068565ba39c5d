//! What is known of an object beside its name, what files lie on, and the ways in which bytes are handed over.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::SystemTime;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::error::{Error, Kind, Result};

/// Metadata of one object, as far as its source knows it; field names as in object stores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectMeta {
    /// Length in bytes.
    pub size: Option<u64>,
    /// Entity tag, quotes included.
    pub e_tag: Option<Box<str>>,
    /// When the source says it was last changed.
    pub last_modified: Option<SystemTime>,
    /// When anything of it was last changed, in nanoseconds since 1970, where its source knows a time that no program can set.
    pub changed: Option<i64>,
    /// Permission bits (at most 0o777), where its source has such: a file gets them less the umask.
    pub mode: Option<u32>,
    /// The source could not tell how long the object is (an answer ended by closing the connection): counted apart.
    pub unverified: bool,
    /// What it is.
    pub kind: ObjectKind,
    /// It is a file of this machine with several names, which stay names of one file.
    pub has_several_names: bool,
    /// What else belongs to a file, if its source has it and the destination takes it.
    pub attributes: Option<Arc<FileAttributes>>,
}

/// What an object is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ObjectKind {
    /// Bytes.
    #[default]
    File,
    /// A symbolic link. Its bytes are the path that it leads to, and no contents: only a destination that [takes
    /// links](Takes::links) gets it.
    Link,
}

/// What belongs to a file besides its bytes, its time and the nine permission bits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileAttributes {
    /// For an exact copy.
    pub owner: Option<Owner>,
    /// Names and values of the extended attributes, sorted by name. ACLs are such attributes, too.
    pub extended: Extended,
}

/// Names and values of extended attributes.
pub type Extended = Vec<(Box<[u8]>, Box<[u8]>)>;

/// Owner and permissions of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The number of the user.
    pub user: u32,
    /// The number of the group.
    pub group: u32,
    /// Permission bits with set-id and sticky (at most 0o7777).
    pub mode: u32,
}

/// What a destination takes of a file besides bytes, permissions and times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Takes {
    /// Symbolic links, as such, and holes.
    pub links: bool,
    /// Several names of one file.
    pub hard_links: bool,
    /// Which attributes.
    pub attributes: AttributeScope,
}

/// Which attributes of files are copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttributeScope {
    /// None.
    #[default]
    None,
    /// The extended attributes of users (`user.*`).
    User,
    /// Owner, group, all permission bits, and all extended attributes that can be copied, ACLs among them.
    All,
}

/// The permissions of a directory that cannot be looked at any more: a new one is for its owner alone, and one that is
/// there stays as it is.
pub const MODE_UNKNOWN: u32 = 0o10_0700;

/// Permission bits (at most 0o777, or [`MODE_UNKNOWN`]) of the directory of a source in which the objects below a name lie, if
/// it has such. A sink asks when it makes a directory, or opens one in an update, which is rare.
pub type Modes = Box<dyn Fn(&[u8]) -> Option<u32>>;

/// What the platform says of the medium that files lie on. It is a hint: a virtual disk often says that it turns, and below
/// an encrypted, layered or user-space file system there can be anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Storage {
    /// Main memory: tmpfs, ramfs.
    Memory,
    /// The block device says that it turns (`queue/rotational` is 1).
    Rotational,
    /// A file system on another machine or in a user's program, or one that machines share: NFS, SMB, 9p, Ceph, Lustre,
    /// FUSE.
    Remote,
    /// Anything else, such as a disk that does not turn, or unknown.
    #[default]
    Other,
}

/// Largest object handed in whole, in bytes: what one request in flight may hold of the budget.
pub const WHOLE_MAX: usize = 64 << 10;

/// What tells the bytes of an object from others: their number, and a hash of the first [`Fingerprint::HASHED`] of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// The number of bytes.
    pub bytes: u64,
    /// xxh3 of the first ones.
    pub hash: u64,
}

impl Fingerprint {
    /// So many bytes are hashed at most: a hash of all took a tenth of the time of a large object.
    pub const HASHED: usize = 16 << 10;

    /// That of these bytes.
    pub fn of(bytes: &[u8]) -> Fingerprint {
        Fingerprint { bytes: bytes.len() as u64, hash: xxh3_64(&bytes[..bytes.len().min(Self::HASHED)]) }
    }
}

/// Makes the fingerprint of an object that comes in pieces.
pub struct Fingerprinter {
    bytes: u64,
    hash: Box<Xxh3>,
}

impl Default for Fingerprinter {
    fn default() -> Fingerprinter {
        Fingerprinter::new()
    }
}

impl Fingerprinter {
    /// That of no bytes so far.
    pub fn new() -> Fingerprinter {
        Fingerprinter { bytes: 0, hash: Box::default() }
    }

    /// The next piece.
    pub fn add(&mut self, piece: &[u8]) {
        let left = (Fingerprint::HASHED as u64).saturating_sub(self.bytes);
        self.hash.update(&piece[..piece.len().min(left as usize)]);
        self.bytes += piece.len() as u64;
    }

    /// The fingerprint of all pieces.
    pub fn end(&self) -> Fingerprint {
        Fingerprint { bytes: self.bytes, hash: self.hash.digest() }
    }
}

/// The complete bytes of an object.
#[derive(Debug)]
pub enum Payload<'a> {
    /// Lives in a buffer of the fetcher; copied where it must outlive the call.
    Borrowed(&'a [u8]),
    /// Given away; passes on uncopied.
    Owned(Vec<u8>),
    /// At its place already: another process that works for this source has written it there, through the same sink.
    Elsewhere {
        /// Its bytes.
        size: u64,
        /// What became of it there.
        put: Put,
    },
}

impl Payload<'_> {
    /// How many bytes.
    pub fn size(&self) -> u64 {
        match self {
            Payload::Borrowed(bytes) => bytes.len() as u64,
            Payload::Owned(bytes) => bytes.len() as u64,
            Payload::Elsewhere { size, .. } => *size,
        }
    }

    /// The bytes.
    ///
    /// # Errors
    /// [`Kind::Internal`] when they are elsewhere: this sink keeps nothing that another process could have written.
    pub fn bytes(&self) -> Result<&[u8]> {
        match self {
            Payload::Borrowed(bytes) => Ok(bytes),
            Payload::Owned(bytes) => Ok(bytes),
            Payload::Elsewhere { .. } => Err(elsewhere()),
        }
    }

    /// Takes the bytes as an owned vector; copies only what is borrowed.
    ///
    /// # Errors
    /// As [`Payload::bytes`].
    pub fn take(&mut self) -> Result<Vec<u8>> {
        match self {
            Payload::Borrowed(bytes) => Ok(bytes.to_vec()),
            Payload::Owned(bytes) => Ok(std::mem::take(bytes)),
            Payload::Elsewhere { .. } => Err(elsewhere()),
        }
    }
}

fn elsewhere() -> Error {
    Error::new(Kind::Internal, "this sink does not accept objects written by another process")
}

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is there.
    Written,
    /// An earlier session of this run had written it, with the same bytes. It counts as written.
    Kept,
    /// Its bytes were there already, from this session or from another program. It counts as skipped.
    Duplicate,
    /// The sink has taken the bytes and tells later what became of them.
    Later,
}

/// One object that comes in pieces. Dropped unfinished, it leaves nothing behind.
pub trait ObjectWriter {
    /// Appends a piece.
    fn write(&mut self, piece: &[u8]) -> Result<()>;
    /// Memory at whose end the next bytes may be put in place of calling `write`, up to the size that was announced, so
    /// that they need not be copied; `None`: call `write`.
    fn space(&mut self) -> Option<&mut Vec<u8>> {
        None
    }
    /// Continues with a hole of this length: bytes that are 0, and take no room. False if it takes none; then the zeros are
    /// written.
    ///
    /// # Errors
    /// As `write`.
    fn hole(&mut self, length: u64) -> Result<bool> {
        let _ = length;
        Ok(false)
    }
    /// Appends up to `length` bytes of a file, from `at` on, without reading them here. Returns how many; `None` if that is not
    /// possible: then they are read and written.
    ///
    /// # Errors
    /// As `write`.
    fn copy(&mut self, file: BorrowedFd<'_>, at: u64, length: usize) -> Result<Option<usize>> {
        let _ = (file, at, length);
        Ok(None)
    }
    /// Publishes the object.
    fn finish(self: Box<Self>) -> Result<Put>;
}
