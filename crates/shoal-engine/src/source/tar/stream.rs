//! The bytes of a tar archive in order: a plain one is read by position, a compressed one is unpacked.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

use super::headers::{Health, Stream};
use crate::error::{Kind, Result};
use crate::source::archive::archive_file::ArchiveFile;
use crate::source::archive::decode::{Decoder, Method, carried};

/// Bytes read at once for headers: enough for a few small entries, and not much more than a large entry needs.
const WINDOW: usize = 16 << 10;
/// Unpacked bytes skipped at once.
const SCRAP: usize = 64 << 10;

/// A block of memory of this size or more is returned to the system when it is freed. The buffer for the unpacked
/// archive is allocated at once with at least this size: unused pages cost nothing, while a vector that grew by
/// doubling used three times as much memory.
const GIVEN_BACK: usize = (32 << 20) + (64 << 10);

/// A plain archive.
pub(super) struct Plain<'f> {
    file: &'f ArchiveFile,
    at: u64,
    /// A part of the file in memory, and its offset.
    window: Vec<u8>,
    from: u64,
}

impl<'f> Plain<'f> {
    pub fn new(file: &'f ArchiveFile) -> Plain<'f> {
        Plain { file, at: 0, window: Vec::new(), from: 0 }
    }

    fn load(&mut self) -> Result<()> {
        let length = (self.file.len() - self.at).min(WINDOW as u64) as usize;
        self.window.resize(length, 0);
        self.from = self.at;
        self.file.read_exact_at(&mut self.window, self.at)
    }
}

impl Stream for Plain<'_> {
    fn fill(&mut self, into: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < into.len() && self.at < self.file.len() {
            let held = self.at.checked_sub(self.from).and_then(|skip| self.window.get(usize::try_from(skip).ok()?..));
            let Some(held) = held.filter(|held| !held.is_empty()) else {
                self.load()?;
                continue;
            };
            let length = held.len().min(into.len() - filled);
            into[filled..filled + length].copy_from_slice(&held[..length]);
            filled += length;
            self.at += length as u64;
        }
        Ok(filled)
    }

    fn skip(&mut self, bytes: u64) -> Result<u64> {
        let passed = bytes.min(self.file.len() - self.at);
        self.at += passed;
        Ok(passed)
    }
}

/// A compressed archive, unpacked.
pub(super) struct Packed<'f> {
    decoder: Decoder<'f>,
    /// All unpacked bytes so far, unless there are too many.
    kept: Option<Vec<u8>>,
    /// The most bytes that are kept.
    room: usize,
    scrap: Vec<u8>,
    /// The decoder has tried to read past the end of the file.
    ended: Rc<Cell<bool>>,
    health: Health,
}

impl<'f> Packed<'f> {
    pub fn new(method: Method, file: &'f ArchiveFile) -> Result<Packed<'f>> {
        let input = Input::new(file);
        let ended = input.ended.clone();
        let decoder = Decoder::new(method, input, None)?;
        let (mut kept, room) = (Vec::new(), file.room);
        let has_room = room > 0 && kept.try_reserve_exact(room.max(GIVEN_BACK)).is_ok();
        let kept = has_room.then_some(kept); // else it is unpacked twice
        Ok(Packed { decoder, kept, room, scrap: vec![0; SCRAP], ended, health: Health::Sound })
    }

    /// Returns the unpacked archive, unless it was too large.
    pub fn into_kept(self) -> Option<Vec<u8>> {
        self.kept
    }

    fn keep(kept: &mut Option<Vec<u8>>, room: usize, bytes: &[u8]) {
        match kept {
            Some(held) if held.len() + bytes.len() <= room => held.extend_from_slice(bytes),
            _ => *kept = None,
        }
    }

    /// Records the state of the stream after a failed read.
    fn noted<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            self.health = match error.kind() == Kind::Integrity && self.ended.get() {
                true => Health::BrokenOff,
                false => Health::Damaged,
            };
        }
        result
    }
}

impl Stream for Packed<'_> {
    fn fill(&mut self, into: &mut [u8]) -> Result<usize> {
        let filled = self.decoder.fill(into);
        let filled = self.noted(filled)?;
        Packed::keep(&mut self.kept, self.room, &into[..filled]);
        Ok(filled)
    }

    fn skip(&mut self, bytes: u64) -> Result<u64> {
        let mut passed = 0;
        while passed < bytes {
            let most = (bytes - passed).min(SCRAP as u64) as usize;
            let read = self.decoder.read(&mut self.scrap[..most]);
            match self.noted(read)? {
                0 => break,
                read => {
                    Packed::keep(&mut self.kept, self.room, &self.scrap[..read]);
                    passed += read as u64;
                }
            }
        }
        Ok(passed)
    }

    fn health(&self) -> Health {
        self.health
    }
}

/// The bytes of an archive file, for a decoder. They end where the file ended when it was opened.
pub(super) struct Input<F> {
    file: F,
    at: u64,
    /// A read past the end was tried.
    ended: Rc<Cell<bool>>,
}

impl<F: AsRef<ArchiveFile>> Input<F> {
    pub fn new(file: F) -> Input<F> {
        Input { file, at: 0, ended: Rc::default() }
    }
}

impl<F: AsRef<ArchiveFile>> Read for Input<F> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let file = self.file.as_ref();
        let length = usize::try_from(file.len() - self.at).unwrap_or(usize::MAX).min(into.len());
        file.read_exact_at(&mut into[..length], self.at).map_err(carried)?;
        self.at += length as u64;
        if length == 0 && !into.is_empty() {
            self.ended.set(true);
        }
        Ok(length)
    }
}

impl AsRef<ArchiveFile> for ArchiveFile {
    fn as_ref(&self) -> &ArchiveFile {
        self
    }
}
