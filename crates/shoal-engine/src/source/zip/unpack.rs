//! Unpacks the entries of zip archives, on the thread of the lane: small ones at once, large ones in pieces. Size and
//! checksum must be those of the directory, else the entry fails and none of its bytes are kept.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use super::inflate::{Inflater, crc, fewer, more};
use super::time::Clock;
use super::window::Window;
use crate::error::{Error, Kind, Result};
use crate::fs::read::{self, Space, unreadable};
use crate::object::{ObjectMeta, Payload};
use crate::source::archive::archive_file::ArchiveFile;
use crate::source::archive::decode::{Decoder, Method, WINDOW_EACH, WINDOW_MAX, carried};
use crate::source::archive::decoder_memory::WideWindows;
use crate::source::archive::format::{Archive, Unpacker};
use crate::source::archive::member::Member;
use crate::source::in_pieces::in_pieces;
use crate::source::turn::Turn;
use crate::source::{Body, Job, Lane, LocalFuture, WHOLE_MAX};

/// Entries of at most this many bytes are unpacked at once, by libdeflate. Larger ones are unpacked in pieces, by a
/// decompressor that can pause and takes a third longer. An entry of this size takes 30 ms, the longest that a stop
/// waits.
const AT_ONCE: u64 = 32 << 20;
/// What deflate may add to incompressible bytes: less than one byte in a thousand, and the head of a block.
const GROWTH: u64 = 64 << 10;
/// Bytes of a large entry that are passed on at once.
const PIECE: usize = 256 << 10;
/// Larger entries need memory that is released when a small one follows, and that is limited over all lanes: beyond
/// [`LARGE_MAX`], such an entry is unpacked in pieces. With four times as much, 32 lanes used 204 MB instead of 178 MB
/// and were no faster.
const LARGE: usize = 512 << 10;
const LARGE_MAX: usize = 64 << 20;

const STORED: u16 = 0;
const DEFLATE: u16 = 8;

/// Shared by all lanes, so that together they use no more memory than one run may.
#[derive(Default)]
pub(super) struct SharedMemory {
    /// Bytes that lanes hold for entries over [`LARGE`] that are unpacked at once, and for a large window.
    large: AtomicUsize,
    wide: WideWindows,
}

/// A large window. It is counted while this exists.
struct CountedWindow<'s>(&'s AtomicUsize);

impl<'s> CountedWindow<'s> {
    fn new(large: &'s AtomicUsize) -> CountedWindow<'s> {
        large.fetch_add(WINDOW_MAX as usize, Relaxed);
        CountedWindow(large)
    }
}

impl Drop for CountedWindow<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(WINDOW_MAX as usize, Relaxed);
    }
}

/// The unpacker of one lane.
pub(super) struct ZipUnpacker {
    window: Window,
    inflater: Option<Inflater>,
    out: Vec<u8>,
    clock: Clock,
    /// The part of `shared.large` that this lane uses.
    held: usize,
    shared: Arc<SharedMemory>,
}

impl Unpacker for ZipUnpacker {
    fn fetch<'a>(
        &'a mut self,
        lane: &'a dyn Lane,
        job: Job,
        archive: &'a Arc<Archive>,
        number: u32,
    ) -> LocalFuture<'a, ()> {
        Box::pin(async move {
            self.answer(lane, job, archive, number).await;
            if self.held > 0 && self.shared.large.load(Relaxed) > LARGE_MAX {
                self.give_back(); // another lane has a large window and needs this memory
            }
        })
    }
}

impl ZipUnpacker {
    pub fn new(shared: Arc<SharedMemory>) -> ZipUnpacker {
        ZipUnpacker { window: Window::new(), inflater: None, out: Vec::new(), clock: Clock::default(), held: 0, shared }
    }

    /// Whether an entry is unpacked at once: its sizes are plausible, and there is memory for it.
    fn takes_at_once(&mut self, member: &Member) -> bool {
        if !is_at_once(member) {
            return false;
        }
        let size = member.size.max(member.packed) as usize;
        if size <= LARGE {
            if self.held > 0 {
                self.give_back();
            }
            return true;
        }
        let more = ((member.size + member.packed) as usize).saturating_sub(self.held);
        if more > 0 && self.shared.large.fetch_add(more, Relaxed) + more > LARGE_MAX {
            self.shared.large.fetch_sub(more, Relaxed);
            return false;
        }
        self.held += more;
        true
    }

    fn give_back(&mut self) {
        self.out = Vec::new();
        self.window.shrink();
        self.shared.large.fetch_sub(std::mem::take(&mut self.held), Relaxed);
    }

    async fn answer(&mut self, lane: &dyn Lane, job: Job, archive: &Arc<Archive>, number: u32) {
        let Some(member) = archive.plan.members.get(number as usize) else {
            return lane.failed(job, Error::new(Kind::Internal, "the archive does not have the listed entry"));
        };
        let meta = self.meta(member);
        if member.size <= WHOLE_MAX as u64 {
            if self.held > 0 {
                self.give_back();
            }
            return match self.small(archive, member) {
                Ok(bytes) => _ = lane.whole(job, &meta, Payload::Borrowed(bytes)),
                Err(error) => lane.failed(job, meant(error, archive)),
            };
        }
        // Before the sink begins the object.
        let data = match self.window.data(archive, member) {
            Ok(data) => data,
            Err(error) => return lane.failed(job, meant(error, archive)),
        };
        let write = async |body: &mut Body| {
            let result = match (member.method, self.takes_at_once(member)) {
                (STORED | DEFLATE, true) => self.at_once(archive, member, body),
                (STORED, false) => self.stored(&archive.file, data, member, body).await,
                _ => self.stream(&archive.file, data, member, body).await,
            };
            result.map_err(|error| meant(error, archive))
        };
        in_pieces(lane, job, &meta, write).await;
    }

    fn meta(&mut self, member: &Member) -> ObjectMeta {
        let settled = Member { modified: self.clock.settle(member), ..Member::default() };
        ObjectMeta {
            size: Some(member.size),
            last_modified: settled.last_modified(),
            mode: member.mode(),
            ..ObjectMeta::default()
        }
    }

    /// Unpacks an entry that is passed on whole.
    fn small(&mut self, archive: &Arc<Archive>, member: &Member) -> Result<&[u8]> {
        let size = member.size as usize;
        match member.method {
            STORED => {
                let data = self.window.entry(archive, member)?;
                check(crc(0, data), member)?;
                Ok(data)
            }
            DEFLATE if is_at_once(member) => {
                self.inflate(archive, member)?;
                Ok(&self.out)
            }
            method => {
                let data = self.window.data(archive, member)?;
                // Any window is allowed: only as many bytes of it are touched as the entry has.
                let mut decoder = decoder(WINDOW_MAX, method, &archive.file, data, member)?;
                self.out.clear();
                self.out.resize(size + 1, 0); // one byte more shows whether the entry ends there
                match decoder.fill(&mut self.out)? {
                    filled if filled > size => return Err(more(member.size)),
                    filled if filled < size => return Err(fewer(filled as u64, member.size)),
                    _ => {}
                }
                check(crc(0, &self.out[..size]), member)?;
                Ok(&self.out[..size])
            }
        }
    }

    /// Unpacks a whole entry to `out`.
    fn inflate(&mut self, archive: &Arc<Archive>, member: &Member) -> Result<()> {
        let size = member.size as usize;
        self.out.clear();
        self.out.reserve_exact(size.max(WHOLE_MAX));
        let packed = self.window.entry(archive, member)?;
        inflater(&mut self.inflater)?.append(packed, &mut self.out, size)?;
        check(crc(0, &self.out), member)
    }

    /// Unpacks an entry at once that is too large to be passed on whole.
    fn at_once(&mut self, archive: &Arc<Archive>, member: &Member, body: &mut Body) -> Result<()> {
        let size = member.size as usize;
        if member.method == STORED {
            let data = self.window.entry(archive, member)?;
            check(crc(0, data), member)?;
            return body.write(data);
        }
        if body.has_space() {
            let packed = self.window.entry(archive, member)?;
            let inflater = inflater(&mut self.inflater)?;
            let mut in_place = false;
            let filled = body.fill(|space| {
                if space.capacity() - space.len() < size {
                    return Ok(0);
                }
                in_place = true;
                let before = space.len();
                inflater.append(packed, space, size)?;
                check(crc(0, &space[before..]), member).map(|()| size)
            });
            filled.transpose()?;
            if in_place {
                return Ok(());
            }
        }
        self.inflate(archive, member)?;
        body.write(&self.out)
    }

    /// Passes on a large entry that is not compressed.
    async fn stored(&mut self, file: &ArchiveFile, data: u64, member: &Member, body: &mut Body) -> Result<()> {
        let (mut done, mut sum) = (0, 0);
        let mut piece = Space::new(0);
        let mut turn = Turn::new();
        while done < member.size {
            let (at, left) = (data + done, usize::try_from(member.size - done).unwrap_or(usize::MAX));
            let filled = body.fill(|space| {
                let before = space.len();
                let read = read::append_at(file.fd.as_fd(), space, at, left);
                let read = read.map_err(|errno| unreadable(errno, Some(at)))?;
                sum = crc(sum, &space[before..]);
                Ok(read)
            });
            let read = match filled {
                Some(read) => read?,
                None => {
                    if piece.is_empty() {
                        piece = Space::new(PIECE);
                    }
                    let read = file.read_at(&mut piece[..PIECE.min(left)], at)?;
                    sum = crc(sum, &piece[..read]);
                    body.write(&piece[..read])?;
                    read
                }
            };
            if read == 0 {
                return Err(file.cut_short());
            }
            done += read as u64;
            turn.after_piece().await;
        }
        check(sum, member)
    }

    /// Unpacks in pieces: a large entry of any method, or a small one that claims far too many compressed bytes.
    async fn stream(&mut self, file: &ArchiveFile, data: u64, member: &Member, body: &mut Body) -> Result<()> {
        let mut unpacked = Unpacked::default();
        // Only as many bytes of a window are touched as the entry has.
        let each = if member.size <= u64::from(WINDOW_EACH) { WINDOW_MAX } else { WINDOW_EACH };
        if !unpacked.go_on(each, file, data, member, body, None).await? {
            if self.held > 0 {
                self.give_back();
            }
            let shared = self.shared.clone();
            let _turn = shared.wide.turn().await;
            let _counted = CountedWindow::new(&shared.large);
            unpacked.go_on(WINDOW_MAX, file, data, member, body, Some(&shared.wide)).await?;
        }
        match unpacked.bytes == member.size {
            true => check(unpacked.sum, member),
            false => Err(fewer(unpacked.bytes, member.size)),
        }
    }
}

/// How much of an entry is unpacked and passed on.
#[derive(Default)]
struct Unpacked {
    bytes: u64,
    sum: u32,
}

impl Unpacked {
    /// Unpacks to the end. Returns false if the stream needs a larger window than `window`, nearly always at its start.
    /// What comes before a later frame of zstd or block of xz is then unpacked again.
    async fn go_on(
        &mut self,
        window: u32,
        file: &ArchiveFile,
        data: u64,
        member: &Member,
        body: &mut Body,
        wide: Option<&WideWindows>,
    ) -> Result<bool> {
        let too_narrow = |error: &Error| window < WINDOW_MAX && error.kind() == Kind::TooLarge;
        let mut decoder = match decoder(window, member.method, file, data, member) {
            Err(error) if too_narrow(&error) => return Ok(false),
            decoder => decoder?,
        };
        let mut piece = Space::new(PIECE);
        let mut again = self.bytes;
        let mut turn = Turn::new();
        loop {
            let length = match again {
                0 => PIECE,
                again => again.min(PIECE as u64) as usize,
            };
            let read = match decoder.fill(&mut piece[..length]) {
                Err(error) if too_narrow(&error) => return Ok(false),
                read => read?,
            };
            if read == 0 {
                return Ok(true);
            }
            if again > 0 {
                again -= read as u64;
            } else if self.bytes + read as u64 > member.size {
                return Err(more(member.size));
            } else {
                self.sum = crc(self.sum, &piece[..read]);
                body.write(&piece[..read])?;
                self.bytes += read as u64;
            }
            if let Some(wide) = wide {
                wide.unpacked();
            }
            turn.after_piece().await;
        }
    }
}

impl Drop for ZipUnpacker {
    fn drop(&mut self) {
        self.shared.large.fetch_sub(self.held, Relaxed);
    }
}

/// Whether both sizes of an entry are plausible for unpacking it at once.
fn is_at_once(member: &Member) -> bool {
    member.size <= AT_ONCE && member.packed <= member.size + GROWTH
}

fn inflater(kept: &mut Option<Inflater>) -> Result<&mut Inflater> {
    Ok(match kept {
        Some(inflater) => inflater,
        None => kept.insert(Inflater::new()?),
    })
}

fn decoder<'f>(window: u32, method: u16, file: &'f ArchiveFile, data: u64, member: &Member) -> Result<Decoder<'f>> {
    let Some(method) = Method::of_zip(method) else {
        return Err(Error::new(Kind::Internal, "unknown compression method"));
    };
    Decoder::within(window, method, PackedEntry { file, at: data, end: data + member.packed }, Some(member.size))
}

fn check(sum: u32, member: &Member) -> Result<()> {
    match sum == member.crc {
        true => Ok(()),
        false => Err(Error::new(Kind::Integrity, format!("its checksum is {sum:08x}, expected {:08x}", member.crc))),
    }
}

/// Replaces an error by the one for a changed archive, if the archive has changed.
fn meant(error: Error, archive: &Archive) -> Error {
    match (error.kind(), archive.file.unchanged()) {
        (Kind::Integrity | Kind::Archive, Err(changed)) => changed,
        _ => error,
    }
}

/// The compressed bytes of one entry.
struct PackedEntry<'f> {
    file: &'f ArchiveFile,
    at: u64,
    end: u64,
}

impl Read for PackedEntry<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.end - self.at).unwrap_or(usize::MAX).min(into.len());
        if most == 0 {
            return Ok(0);
        }
        match self.file.read_at(&mut into[..most], self.at).map_err(carried)? {
            0 => Err(carried(self.file.cut_short())),
            read => {
                self.at += read as u64;
                Ok(read)
            }
        }
    }
}
