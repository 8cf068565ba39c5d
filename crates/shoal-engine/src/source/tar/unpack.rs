//! Unpacks the entries of tar archives, on the thread of the lane.
//!
//! Small entries of a plain archive follow each other, so a window holds several and they share one read. A compressed
//! archive that is not in memory is unpacked forward from entry to entry, and again from its start for an entry that is
//! further back: a copy of an earlier file (`links.rs`).

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

use super::links::{HELD_MAX, SHARED};
use super::stream::Input;
use crate::error::{Error, Kind, Result};
use crate::object::{ObjectMeta, Payload};
use crate::source::archive::archive_file::ArchiveFile;
use crate::source::archive::decode::{Decoder, MAGIC, Method};
use crate::source::archive::format::{Archive, Unpacker};
use crate::source::archive::member::{EntryKind, Member};
use crate::source::in_pieces::in_pieces;
use crate::source::turn::Turn;
use crate::source::{Body, Job, Lane, LocalFuture, WHOLE_MAX};

/// Bytes read or unpacked at once. A whole small entry and its header fit.
const PIECE: usize = 256 << 10;
/// Most bytes that all lanes hold of files with several copies. Beyond that, each copy takes its own pass.
const HELD_ALL: u64 = 4 * HELD_MAX;

/// The unpacker of one lane.
pub(super) struct TarUnpacker {
    buffer: Vec<u8>,
    /// The plain archive whose bytes are in the buffer, the offset of the first, and their number. A weak reference, so
    /// that it does not keep the archive open.
    window: Option<(Weak<Archive>, u64, usize)>,
    stream: Option<ForwardStream>,
    /// A file of a compressed archive that has several copies.
    held: Option<HeldFile>,
    /// Bytes that all lanes hold of such files.
    all_held: Arc<AtomicU64>,
    turn: Turn,
}

impl Unpacker for TarUnpacker {
    fn fetch<'a>(
        &'a mut self,
        lane: &'a dyn Lane,
        job: Job,
        archive: &'a Arc<Archive>,
        member: u32,
    ) -> LocalFuture<'a, ()> {
        Box::pin(async move {
            let number = member;
            let rest = archive.plan.members.get(member as usize..).unwrap_or_default();
            let [member, behind @ ..] = rest else {
                return lane.failed(job, Error::new(Kind::Internal, "the archive does not have the listed entry"));
            };
            let meta = ObjectMeta {
                size: Some(member.size),
                last_modified: member.last_modified(),
                mode: member.mode(),
                ..ObjectMeta::default()
            };
            self.turn = Turn::new();
            self.held.take_if(|held| !held.is(archive, member));
            if member.size <= WHOLE_MAX as u64 {
                match self.whole(archive, member).await {
                    Ok(bytes) => _ = lane.whole(job, &meta, Payload::Borrowed(bytes)),
                    Err(error) => lane.failed(job, error),
                }
            } else {
                in_pieces(lane, job, &meta, async |body| self.pieces(archive, member, body).await).await;
            }
            let is_last = match archive.plan.links.last() {
                Some(&last) => last == number,
                None => !behind.iter().any(|member| member.what == EntryKind::File),
            };
            if is_last {
                (self.stream, self.held) = (None, None); // they would hold the archive open
            }
        })
    }
}

impl TarUnpacker {
    pub fn new(all_held: Arc<AtomicU64>) -> TarUnpacker {
        TarUnpacker { buffer: Vec::new(), window: None, stream: None, held: None, all_held, turn: Turn::new() }
    }

    /// Returns the contents of a small entry.
    async fn whole<'a>(&'a mut self, archive: &'a Arc<Archive>, member: &Member) -> Result<&'a [u8]> {
        if let Some(bytes) = kept(archive, member)? {
            return Ok(bytes);
        }
        let size = member.size as usize;
        if size == 0 {
            return Ok(&[]); // an empty copy is not worth another pass
        }
        let held = self.window.as_ref().filter(|(of, ..)| of.as_ptr() == Arc::as_ptr(archive)).and_then(
            |(_, from, length)| {
                let skip = usize::try_from(member.at.checked_sub(*from)?).ok()?;
                (skip.checked_add(size)? <= *length).then_some(skip)
            },
        );
        let skip = match held {
            Some(skip) => skip,
            None if archive.plan.sequential => {
                self.forward(archive, member.at).await?;
                let TarUnpacker { buffer, stream: Some(stream), .. } = self else { return Err(lost()) };
                stream.fill(&mut buffer[..size])?;
                archive.file.unchanged()?;
                self.window = Some((Arc::downgrade(archive), member.at, size)); // the next may be a copy of it
                0
            }
            None => {
                self.load(archive, member.at)?;
                0
            }
        };
        self.buffer.get(skip..skip + size).ok_or_else(|| archive.file.cut_short())
    }

    /// Fills the window from an offset of a plain archive on.
    fn load(&mut self, archive: &Arc<Archive>, at: u64) -> Result<()> {
        self.window = None;
        self.buffer.resize(PIECE, 0);
        let length =
            self.buffer.len().min(usize::try_from(archive.file.len().saturating_sub(at)).unwrap_or(usize::MAX));
        archive.file.read_exact_at(&mut self.buffer[..length], at)?;
        archive.file.unchanged()?; // after the read, so that the bytes are those of the planned archive
        self.window = Some((Arc::downgrade(archive), at, length));
        Ok(())
    }

    /// Passes on a large entry in pieces.
    async fn pieces(&mut self, archive: &Arc<Archive>, member: &Member, body: &mut Body) -> Result<()> {
        if let Some(bytes) = kept(archive, member)? {
            for piece in bytes.chunks(PIECE) {
                body.write(piece)?;
                self.turn.after_piece().await;
            }
            return Ok(());
        }
        if self.hold(archive, member).await?
            && let Some(held) = &self.held
        {
            for piece in held.bytes.chunks(PIECE) {
                body.write(piece)?;
            }
            return Ok(());
        }
        if archive.plan.sequential {
            self.forward(archive, member.at).await?;
        }
        self.window = None;
        self.buffer.resize(PIECE, 0);
        let mut done = 0;
        while done < member.size {
            let length = usize::try_from(member.size - done).unwrap_or(usize::MAX).min(PIECE);
            let piece = &mut self.buffer[..length];
            match (archive.plan.sequential, &mut self.stream) {
                (false, _) => archive.file.read_exact_at(piece, member.at + done)?,
                (true, Some(stream)) => stream.fill(piece)?,
                (true, None) => return Err(lost()),
            }
            body.write(piece)?;
            done += length as u64;
            self.turn.after_piece().await;
        }
        archive.file.unchanged()
    }

    /// Holds a file with several copies in memory. Returns whether it is one and fits.
    async fn hold(&mut self, archive: &Arc<Archive>, member: &Member) -> Result<bool> {
        if !archive.plan.sequential || member.flags & SHARED == 0 || member.size > HELD_MAX {
            return Ok(false);
        }
        if self.held.is_some() {
            return Ok(true); // the file of another entry was dropped
        }
        let Some(mut held) = HeldFile::new(archive, member, &self.all_held) else { return Ok(false) };
        self.forward(archive, member.at).await?;
        let Some(stream) = &mut self.stream else { return Err(lost()) };
        for piece in held.bytes.chunks_mut(PIECE) {
            stream.fill(piece)?;
        }
        archive.file.unchanged()?;
        self.held = Some(held);
        Ok(true)
    }

    /// Unpacks a compressed archive up to this offset.
    async fn forward(&mut self, archive: &Arc<Archive>, at: u64) -> Result<()> {
        self.window = None;
        let reusable =
            |stream: &ForwardStream| Arc::ptr_eq(&stream.archive, archive) && stream.at <= at && !stream.failed;
        if !self.stream.as_ref().is_some_and(reusable) {
            self.stream = None; // before creating another: each has its own window
            self.stream = Some(ForwardStream::new(archive.clone())?);
        }
        self.buffer.resize(PIECE, 0);
        loop {
            let Some(stream) = &mut self.stream else { return Err(lost()) };
            match at - stream.at {
                0 => return Ok(()),
                ahead => {
                    let length = usize::try_from(ahead).unwrap_or(usize::MAX).min(PIECE);
                    stream.fill(&mut self.buffer[..length])?;
                }
            }
            self.turn.after_piece().await;
        }
    }
}

/// Returns the contents of an entry if the plan has the unpacked archive.
fn kept<'a>(archive: &'a Archive, member: &Member) -> Result<Option<&'a [u8]>> {
    if archive.plan.unpacked.is_empty() {
        return Ok(None);
    }
    let range = usize::try_from(member.at).ok().zip(usize::try_from(member.at + member.size).ok());
    let bytes = range.and_then(|(from, to)| archive.plan.unpacked.get(from..to));
    bytes.map(Some).ok_or_else(lost)
}

fn lost() -> Error {
    Error::new(Kind::Internal, "an entry is outside its archive")
}

/// The contents of a file that has several copies.
struct HeldFile {
    archive: Weak<Archive>,
    at: u64,
    bytes: Vec<u8>,
    all: Arc<AtomicU64>,
}

impl HeldFile {
    /// Allocates memory for it, if the limit over all lanes permits.
    fn new(archive: &Arc<Archive>, member: &Member, all: &Arc<AtomicU64>) -> Option<HeldFile> {
        let size = member.size;
        all.fetch_update(Relaxed, Relaxed, |held| Some(held + size).filter(|held| *held <= HELD_ALL)).ok()?;
        let (archive, bytes) = (Arc::downgrade(archive), vec![0; size as usize]);
        Some(HeldFile { archive, at: member.at, bytes, all: all.clone() })
    }

    fn is(&self, archive: &Arc<Archive>, member: &Member) -> bool {
        self.archive.as_ptr() == Arc::as_ptr(archive) && self.at == member.at
    }
}

impl Drop for HeldFile {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes.len() as u64, Relaxed);
    }
}

/// A compressed archive that is being unpacked.
struct ForwardStream {
    archive: Arc<Archive>,
    decoder: Decoder<'static>,
    at: u64,
    failed: bool,
}

/// An archive as an input of a decoder.
struct ArchiveInput(Arc<Archive>);

impl AsRef<ArchiveFile> for ArchiveInput {
    fn as_ref(&self) -> &ArchiveFile {
        &self.0.file
    }
}

impl ForwardStream {
    fn new(archive: Arc<Archive>) -> Result<ForwardStream> {
        let mut head = [0; MAGIC];
        let length = archive.file.read_at(&mut head, 0)?;
        let method = Method::of_file(&head[..length]).ok_or_else(|| archive.file.cut_short())?;
        let decoder = Decoder::new(method, Input::new(ArchiveInput(archive.clone())), None)?;
        Ok(ForwardStream { archive, decoder, at: 0, failed: false })
    }

    /// Fills all of `into`.
    fn fill(&mut self, into: &mut [u8]) -> Result<()> {
        let result = match self.decoder.fill(into) {
            Ok(filled) if filled == into.len() => Ok(()),
            Ok(_) => Err(Error::new(Kind::Integrity, "the archive ends earlier than when it was listed")),
            Err(error) => Err(error),
        };
        match result {
            Ok(()) => self.at += into.len() as u64,
            Err(error) => {
                self.failed = true;
                // Unpacking succeeded when the archive was planned, so the file has probably changed. Report that if it
                // is visible.
                return Err(self.archive.file.unchanged().err().unwrap_or(error));
            }
        }
        Ok(())
    }
}
