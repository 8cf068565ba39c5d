//! Reads the entries of a tar archive from the headers in a stream of blocks: ustar, pax, the long names of GNU, the
//! old v7.
//!
//! A tar archive has no directory. The start of an entry follows from the length of the one before, so two readers that
//! disagree about a length see two different archives (CVE-2025-62518). Anything ambiguous is therefore an error and
//! never skipped: every header must have a correct checksum, a malformed extension ends the archive, a length in a pax
//! header counts, and an entry without contents must not declare any.

use super::pax::Pax;
use crate::display::escape;
use crate::error::{Error, Kind, Result};

/// Length of a block in bytes: everything in a tar archive is a multiple of it.
pub(super) const BLOCK: usize = 512;
/// Longest extension (pax records, a long name) that is read, in bytes: it is held in memory. The largest part,
/// extended attributes, has at most 64 KiB.
const EXTENSION_MAX: u64 = 1 << 20;

/// Most bytes of headers before one entry.
const EXTENSIONS_MAX: u64 = 4 * EXTENSION_MAX;

/// A source of blocks.
pub(super) trait Stream {
    /// Fills `into`. Returns fewer bytes only at the end of the stream.
    fn fill(&mut self, into: &mut [u8]) -> Result<usize>;
    /// Skips bytes. Returns how many there were.
    fn skip(&mut self, bytes: u64) -> Result<u64>;
    /// The state of the stream so far.
    fn health(&self) -> Health {
        Health::Sound
    }
}

/// The state of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    /// No failure so far.
    Sound,
    /// The end is missing.
    BrokenOff,
    /// The bytes are not those that were compressed.
    Damaged,
}

/// The type of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryType {
    File,
    Directory,
    SymbolicLink,
    HardLink,
    /// A character or block device.
    Device,
    Fifo,
    /// A sparse file.
    Sparse,
    /// An unknown type.
    Unknown(u8),
    /// Part of a file that begins in another archive.
    Continued,
}

/// One entry.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The name in the archive, without leading "./" and, for a directory, trailing slashes.
    pub name: Vec<u8>,
    pub what: EntryType,
    /// Offset of its contents in the stream, and their length there.
    pub at: u64,
    pub size: u64,
    /// Whether the name is marked as UTF-8.
    pub utf8: bool,
    /// The target of a hard link, in the same form as `name`.
    pub link: Option<Target>,
    /// Permission bits, at most 0o777; 0 if it has none.
    pub mode: u16,
    /// Time of the last change, in seconds since 1970.
    pub modified: Option<i64>,
}

/// The target of a hard link.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub name: Vec<u8>,
    pub utf8: bool,
}

/// Reads one entry after the other.
pub(super) struct Reader<S> {
    stream: S,
    at: u64,
    /// Where the last block began, for messages.
    head: u64,
    /// Padding after the contents of the last entry.
    padding: u64,
    /// Bytes of extensions so far, and up to the last entry: a stream of nothing else must end at a limit.
    extensions: u64,
    counted: u64,
    global: Pax,
}

/// What extensions say about the entry that follows them.
#[derive(Default)]
struct Extended {
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    pax: Option<Pax>,
}

impl<S: Stream> Reader<S> {
    pub fn new(stream: S) -> Reader<S> {
        let (at, head, padding, extensions, counted) = (0, 0, 0, 0, 0);
        Reader { stream, at, head, padding, extensions, counted, global: Pax::default() }
    }

    /// Returns the bytes of extensions so far.
    pub fn extensions(&self) -> u64 {
        self.extensions
    }

    /// Whether no header has been read.
    pub fn is_at_start(&self) -> bool {
        self.at <= BLOCK as u64
    }

    /// Returns the state of the stream.
    pub fn health(&self) -> Health {
        self.stream.health()
    }

    /// Returns the stream, positioned after what was read.
    pub fn into_stream(self) -> S {
        self.stream
    }

    /// Returns the next entry, or `None` at the end. Its contents must be skipped before the next call.
    ///
    /// # Errors
    /// [`Kind::Integrity`] if the stream is not a tar archive from here on, or ends without an end marker; errors of
    /// reading it.
    pub fn next(&mut self) -> Result<Option<Entry>> {
        self.pad()?;
        let mut extended: Option<Extended> = None;
        loop {
            let Some(block) = self.block(extended.is_some())? else { return Err(self.no_end()) };
            let header = Header(&block);
            if header.is_zero() {
                return match extended {
                    None => self.end(),
                    Some(_) => Err(self.broken("it ends between a header and its entry")),
                };
            }
            if !header.has_sum() {
                return Err(self.broken("there is no tar header: the checksum is wrong"));
            }
            if let b'g' | b'x' | b'X' | b'L' | b'K' = header.type_flag() {
                let records = self.extension(&header)?;
                if header.type_flag() == b'g' {
                    let global = Pax::parse(&records).and_then(Pax::checked_global);
                    self.global.update(global.map_err(|why| self.broken(why))?);
                } else {
                    let extended = extended.get_or_insert_default();
                    extended.add(header.type_flag(), &records).map_err(|why| self.broken(why))?;
                }
            } else if let Some(what) = header.what() {
                let entry = self.entry(&header, what, extended.unwrap_or_default())?;
                self.counted = self.extensions;
                return Ok(Some(entry));
            } else {
                let size = header.size().map_err(|why| self.broken(why))?;
                self.nothing(b"a label", size)?;
                self.count(BLOCK as u64)?;
            }
        }
    }

    /// Skips some of the contents of an entry. Returns how many bytes there were.
    pub fn skip(&mut self, bytes: u64) -> Result<u64> {
        let passed = self.stream.skip(bytes)?;
        self.at += passed;
        Ok(passed)
    }

    /// Reads what follows the end. Returns fewer bytes only at the end of the stream.
    pub fn behind(&mut self, into: &mut [u8]) -> Result<usize> {
        let filled = self.stream.fill(into)?;
        self.at += filled as u64;
        Ok(filled)
    }

    /// Skips the padding after the contents of the last entry.
    fn pad(&mut self) -> Result<()> {
        let padding = std::mem::take(&mut self.padding);
        match self.skip(padding)? == padding {
            true => Ok(()),
            false => Err(self.broken("it ends within the padding after an entry")),
        }
    }

    /// Counts bytes of headers that are not entries.
    fn count(&mut self, bytes: u64) -> Result<()> {
        self.extensions += bytes;
        match self.extensions - self.counted > EXTENSIONS_MAX {
            true => Err(self.broken(format!("more than {EXTENSIONS_MAX} bytes of headers precede one entry"))),
            false => Ok(()),
        }
    }

    /// Returns a block, or `None` if the stream has ended before it, which is an error `within` an entry.
    fn block(&mut self, within: bool) -> Result<Option<[u8; BLOCK]>> {
        let mut block = [0; BLOCK];
        let filled = self.stream.fill(&mut block)?;
        if filled == 0 && !within {
            return Ok(None);
        }
        if filled < BLOCK {
            return Err(self.broken("it ends within a header"));
        }
        self.head = self.at;
        self.at += BLOCK as u64;
        Ok(Some(block))
    }

    /// Handles a block of zeros. A second one, or the end of the stream, ends the archive. (GNU tar accepts a single
    /// block as an end, with a warning.) Readers disagree about anything else.
    fn end(&mut self) -> Result<Option<Entry>> {
        match self.block(false)? {
            None => Ok(None),
            Some(block) if Header(&block).is_zero() => Ok(None),
            Some(_) => Err(self.broken("a single block of zeros precedes more entries")),
        }
    }

    /// Returns the contents of a header that belongs to the next entry.
    fn extension(&mut self, header: &Header<'_>) -> Result<Vec<u8>> {
        let size = header.size().map_err(|why| self.broken(why))?;
        if size > EXTENSION_MAX {
            let why = format!("an extended header claims {size} bytes, but at most {EXTENSION_MAX} are read");
            return Err(self.broken(why));
        }
        self.count(BLOCK as u64 + size)?;
        let mut records = vec![0; size as usize];
        if self.stream.fill(&mut records)? < records.len() {
            return Err(self.broken("it ends within an extended header"));
        }
        self.at += size;
        self.padding = padding(size);
        self.pad()?;
        Ok(records)
    }

    /// Returns the entry of a header.
    fn entry(&mut self, header: &Header<'_>, what: EntryType, extended: Extended) -> Result<Entry> {
        let pax = extended.pax.unwrap_or_default();
        let of_pax = pax.sparse_name.or(pax.path);
        let is_utf8 = |name: &Option<Vec<u8>>| name.as_ref().is_some_and(|name| std::str::from_utf8(name).is_ok());
        let utf8 = is_utf8(&of_pax);
        let name = of_pax.or(extended.name).unwrap_or_else(|| header.name());
        let size = match pax.size {
            Some(size) => size,
            None => header.size().map_err(|why| self.broken_at(&name, why))?,
        };
        let what = match what {
            EntryType::File if pax.sparse => EntryType::Sparse,
            EntryType::File if size == 0 && name.ends_with(b"/") => EntryType::Directory, // in old archives
            what => what,
        };
        if what == EntryType::Sparse && header.type_flag() == b'S' {
            self.sparse_map(header)?;
        }
        let size = match what {
            EntryType::HardLink => 0, // some packers write the length of the file here, but not its contents
            EntryType::Directory if header.type_flag() != b'D' => self.nothing(&name, size)?,
            EntryType::SymbolicLink | EntryType::Device | EntryType::Fifo => self.nothing(&name, size)?,
            _ => size,
        };
        self.padding = padding(size);
        let modified = pax.modified.or(self.global.modified).or(header.modified());
        let name = plain(&name, what == EntryType::Directory).to_vec();
        let link = (what == EntryType::HardLink).then(|| {
            let utf8 = is_utf8(&pax.link);
            let name = pax.link.or(extended.link).unwrap_or_else(|| header.link());
            Target { name: plain(&name, false).to_vec(), utf8 }
        });
        Ok(Entry { name, utf8, link, what, at: self.at, size, mode: header.mode(), modified })
    }

    /// Skips the blocks with the rest of the map of a GNU sparse file, which precede its contents.
    fn sparse_map(&mut self, header: &Header<'_>) -> Result<()> {
        let mut more = header.0[482] != 0;
        while more {
            let Some(block) = self.block(true)? else { return Ok(()) };
            self.count(BLOCK as u64)?;
            more = block[504] != 0;
        }
        Ok(())
    }

    /// Checks that an entry without contents has length 0.
    fn nothing(&self, name: &[u8], size: u64) -> Result<u64> {
        match size {
            0 => Ok(0),
            size => {
                let why =
                    format!("an entry without contents claims {size} bytes, so the start of the next entry is unknown");
                Err(self.broken_at(name, why))
            }
        }
    }

    /// The error for a stream that ends where an entry or the end marker should begin. GNU tar takes that for an end,
    /// but every archive that was cut between two entries ends like this.
    fn no_end(&self) -> Error {
        let why = "the blocks of zeros that mark its end are missing, and entries may be missing with them";
        Error::new(Kind::Integrity, format!("the tar archive ends early, at byte {}: {why}", self.at))
    }

    /// The error for an archive that is damaged from here on.
    fn broken(&self, why: impl AsRef<str>) -> Error {
        Error::new(Kind::Integrity, format!("the tar archive is damaged at byte {}: {}", self.head, why.as_ref()))
    }

    fn broken_at(&self, name: &[u8], why: impl AsRef<str>) -> Error {
        self.broken(format!("\"{}\": {}", escape(name), why.as_ref()))
    }
}

impl Extended {
    fn add(&mut self, flag: u8, records: &[u8]) -> Result<(), String> {
        let twice = match flag {
            b'L' => self.name.replace(until_zero(records).to_vec()).is_some(),
            b'K' => self.link.replace(until_zero(records).to_vec()).is_some(),
            _ => self.pax.replace(Pax::parse(records)?).is_some(),
        };
        match twice {
            true => Err(format!("two headers of type '{}' precede one entry", flag.escape_ascii())),
            false => Ok(()),
        }
    }
}

/// Returns the padding after contents of this length.
fn padding(size: u64) -> u64 {
    size.next_multiple_of(BLOCK as u64) - size
}

/// Whether a file that begins with this block can be a tar archive.
pub(super) fn begins(block: &[u8]) -> bool {
    block.first_chunk::<BLOCK>().is_some_and(|block| Header(block).is_zero() || Header(block).has_sum())
}

/// Returns the name without the prefix that `tar -C directory .` adds.
fn plain(mut name: &[u8], directory: bool) -> &[u8] {
    while let Some(rest) = name.strip_prefix(b"./") {
        name = rest;
    }
    if directory {
        while let Some(rest) = name.strip_suffix(b"/") {
            // Only slashes: an absolute name, which the destination refuses.
            if rest.is_empty() {
                break;
            }
            name = rest;
        }
        if name == b"." {
            return b"";
        }
    }
    name
}

fn until_zero(field: &[u8]) -> &[u8] {
    &field[..memchr::memchr(0, field).unwrap_or(field.len())]
}

/// One header block.
struct Header<'b>(&'b [u8; BLOCK]);

impl Header<'_> {
    fn is_zero(&self) -> bool {
        self.0.iter().all(|&byte| byte == 0)
    }

    /// Whether its checksum is correct. Some old packers summed signed bytes.
    fn has_sum(&self) -> bool {
        let blank = |at: usize, byte: u8| if (148..156).contains(&at) { b' ' } else { byte };
        let bytes = || self.0.iter().enumerate().map(|(at, &byte)| blank(at, byte));
        let unsigned: i64 = bytes().map(i64::from).sum();
        let signed: i64 = bytes().map(|byte| i64::from(byte as i8)).sum();
        number(&self.0[148..156]).is_some_and(|sum| sum == unsigned || sum == signed)
    }

    fn type_flag(&self) -> u8 {
        self.0[156]
    }

    fn name(&self) -> Vec<u8> {
        let name = until_zero(&self.0[..100]);
        // The packer `star` marks its headers at the end, and has times after a shorter prefix.
        let prefix = until_zero(&self.0[345..if &self.0[508..] == b"tar\0" { 476 } else { 500 }]);
        // GNU's own format has other fields in place of the prefix. The old format has none.
        match &self.0[257..263] == b"ustar\0" && !prefix.is_empty() {
            true => [prefix, b"/", name].concat(),
            false => name.to_vec(),
        }
    }

    fn link(&self) -> Vec<u8> {
        until_zero(&self.0[157..257]).to_vec()
    }

    fn size(&self) -> Result<u64, &'static str> {
        number(&self.0[124..136])
            .and_then(|size| u64::try_from(size).ok())
            .ok_or("the length in its header is not a number")
    }

    fn modified(&self) -> Option<i64> {
        number(&self.0[136..148])
    }

    /// Permission bits; 0 also if the field has no number.
    fn mode(&self) -> u16 {
        number(&self.0[100..108]).map_or(0, |mode| (mode & 0o777) as u16)
    }

    /// Returns the type of its entry; `None` if it is not an entry.
    fn what(&self) -> Option<EntryType> {
        Some(match self.type_flag() {
            0 | b'0' | b'7' => EntryType::File,
            b'1' => EntryType::HardLink,
            b'2' => EntryType::SymbolicLink,
            b'3' | b'4' => EntryType::Device,
            b'5' | b'D' => EntryType::Directory,
            b'6' => EntryType::Fifo,
            b'S' => EntryType::Sparse,
            b'M' => EntryType::Continued,
            b'V' => return None, // the label of a volume
            other => EntryType::Unknown(other),
        })
    }
}

/// Parses a number: octal digits between blanks, or in base 256 if the first bit is set.
fn number(field: &[u8]) -> Option<i64> {
    match field {
        [first @ (0x80 | 0xff), rest @ ..] => {
            let (head, tail) = rest.split_at_checked(rest.len().checked_sub(8)?)?;
            let filler = if *first == 0xff { 0xff } else { 0 };
            let value = i64::from_be_bytes(tail.try_into().ok()?);
            (head.iter().all(|&byte| byte == filler) && (value < 0) == (filler == 0xff)).then_some(value)
        }
        _ => {
            let text = field.trim_ascii_start();
            let end = text.iter().position(|&byte| byte == 0 || byte == b' ').unwrap_or(text.len());
            if !text[end..].iter().all(|&byte| byte == 0 || byte == b' ') {
                return None;
            }
            text[..end].iter().try_fold(0i64, |value, &digit| match digit {
                b'0'..=b'7' => value.checked_mul(8)?.checked_add(i64::from(digit - b'0')),
                _ => None,
            })
        }
    }
}
