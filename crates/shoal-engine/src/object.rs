//! What is known of an object beside its name, and the ways its bytes are handed over.

use std::time::SystemTime;

use crate::error::Result;

/// Metadata of one object, as far as its source knows it; field names as in object stores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectMeta {
    /// Length in bytes.
    pub size: Option<u64>,
    /// Entity tag, quotes included.
    pub e_tag: Option<Box<str>>,
    /// When the source says it was last changed.
    pub last_modified: Option<SystemTime>,
    /// The source could not tell how long the object is (an answer ended by closing the connection): counted apart.
    pub unverified: bool,
}

/// The complete bytes of an object.
#[derive(Debug)]
pub enum Payload<'a> {
    /// Lives in a buffer of the fetcher; copied where it must outlive the call.
    Borrowed(&'a [u8]),
    /// Given away; passes on uncopied.
    Owned(Vec<u8>),
}

impl Payload<'_> {
    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Payload::Borrowed(bytes) => bytes,
            Payload::Owned(bytes) => bytes,
        }
    }

    /// The bytes as an owned vector; copies only what is borrowed.
    pub fn into_vec(self) -> Vec<u8> {
        match self {
            Payload::Borrowed(bytes) => bytes.to_vec(),
            Payload::Owned(bytes) => bytes,
        }
    }
}

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is there.
    Written,
    /// This run had written that name before; the first stays.
    Duplicate,
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
    /// Publishes the object.
    fn finish(self: Box<Self>) -> Result<Put>;
}
