//! A writer of zip archives for tests, which also writes what no archive should hold: every number can be a lie.

#![allow(dead_code)] // each file uses its part

use std::io::Write;

pub const STORED: u16 = 0;
pub const DEFLATE: u16 = 8;

/// Host systems of "version made by".
pub const DOS: u8 = 0;
pub const UNIX: u8 = 3;

/// One entry; what it says of itself, and apart from that what its own header says where that is to differ.
#[derive(Clone, Debug)]
pub struct Entry {
    pub name: Vec<u8>,
    /// As it stands in the archive.
    pub packed: Vec<u8>,
    pub size: u64,
    pub crc: u32,
    pub method: u16,
    pub flags: u16,
    pub host: u8,
    /// Upper half of the attributes.
    pub mode: u32,
    /// Of the directory and of the entry's own header.
    pub extra: Vec<u8>,
    pub local_extra: Vec<u8>,
    /// Sizes and offset in a zip64 field.
    pub zip64: bool,
    pub time: (u16, u16),
    /// Another length of its packed bytes, offset.
    pub said_packed: Option<u64>,
    pub said_offset: Option<u64>,
    pub local: Local,
}

/// What the entry's own header says in place of what is so.
#[derive(Clone, Debug, Default)]
pub struct Local {
    pub name: Option<Vec<u8>>,
    pub method: Option<u16>,
    pub flags: Option<u16>,
    pub crc: Option<u32>,
    pub packed: Option<u32>,
    pub size: Option<u32>,
}

pub fn crc(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

pub fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::new(6));
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

impl Entry {
    pub fn stored(name: impl AsRef<[u8]>, bytes: &[u8]) -> Entry {
        Entry {
            name: name.as_ref().to_vec(),
            packed: bytes.to_vec(),
            size: bytes.len() as u64,
            crc: crc(bytes),
            method: STORED,
            flags: 1 << 11,
            host: UNIX,
            mode: 0o100_644,
            extra: Vec::new(),
            local_extra: Vec::new(),
            zip64: false,
            time: (0, 0x21),
            said_packed: None,
            said_offset: None,
            local: Local::default(),
        }
    }

    pub fn deflated(name: impl AsRef<[u8]>, bytes: &[u8]) -> Entry {
        Entry { packed: deflate(bytes), method: DEFLATE, ..Entry::stored(name, bytes) }
    }

    /// The same, with sizes and checksum behind it.
    pub fn described(mut self) -> Entry {
        self.flags |= 1 << 3;
        self
    }

    /// The same, with numbers of 64 bits.
    pub fn wide(mut self) -> Entry {
        self.zip64 = true;
        self
    }
}

/// An extra field.
pub fn field(id: u16, bytes: &[u8]) -> Vec<u8> {
    [&id.to_le_bytes()[..], &(bytes.len() as u16).to_le_bytes(), bytes].concat()
}

fn narrow(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// An archive under way.
#[derive(Default)]
pub struct Zip {
    pub bytes: Vec<u8>,
    pub directory: Vec<u8>,
    pub count: u64,
    /// What offsets count from.
    pub base: u64,
}

impl Zip {
    pub fn of(entries: impl IntoIterator<Item = Entry>) -> Zip {
        let mut zip = Zip::default();
        entries.into_iter().for_each(|entry| zip.push(&entry));
        zip
    }

    /// Appends an entry, and its line to the directory.
    pub fn push(&mut self, entry: &Entry) {
        let offset = self.bytes.len() as u64 - self.base;
        let said = |told: Option<u32>, so: u64| told.unwrap_or(if entry.flags & 8 != 0 { 0 } else { narrow(so) });
        let flags = entry.local.flags.unwrap_or(entry.flags);
        let name = entry.local.name.as_ref().unwrap_or(&entry.name);
        let mut extra = entry.local_extra.clone();
        let (mut size, mut packed) =
            (said(entry.local.size, entry.size), said(entry.local.packed, entry.packed.len() as u64));
        if entry.zip64 {
            let wide = [entry.size.to_le_bytes(), (entry.packed.len() as u64).to_le_bytes()].concat();
            extra.extend(field(1, &wide));
            (size, packed) = (u32::MAX, u32::MAX);
        }
        self.bytes.extend_from_slice(b"PK\x03\x04\x2d\0");
        self.bytes.extend_from_slice(&flags.to_le_bytes());
        self.bytes.extend_from_slice(&entry.local.method.unwrap_or(entry.method).to_le_bytes());
        self.bytes.extend_from_slice(&entry.time.0.to_le_bytes());
        self.bytes.extend_from_slice(&entry.time.1.to_le_bytes());
        self.bytes.extend_from_slice(&said(entry.local.crc, entry.crc.into()).to_le_bytes());
        self.bytes.extend_from_slice(&packed.to_le_bytes());
        self.bytes.extend_from_slice(&size.to_le_bytes());
        self.bytes.extend_from_slice(&(name.len() as u16).to_le_bytes());
        self.bytes.extend_from_slice(&(extra.len() as u16).to_le_bytes());
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(&extra);
        self.bytes.extend_from_slice(&entry.packed);
        if entry.flags & 8 != 0 {
            self.bytes.extend_from_slice(b"PK\x07\x08");
            self.bytes.extend_from_slice(&entry.crc.to_le_bytes());
            self.bytes.extend_from_slice(&narrow(entry.packed.len() as u64).to_le_bytes());
            self.bytes.extend_from_slice(&narrow(entry.size).to_le_bytes());
        }
        self.line(entry, entry.said_offset.unwrap_or(offset));
    }

    /// Appends a line to the directory, for an entry at `offset`.
    pub fn line(&mut self, entry: &Entry, offset: u64) {
        let packed = entry.said_packed.unwrap_or(entry.packed.len() as u64);
        let mut extra = entry.extra.clone();
        let mut numbers = [narrow(packed), narrow(entry.size), narrow(offset)];
        if entry.zip64 {
            let wide = [entry.size.to_le_bytes(), packed.to_le_bytes(), offset.to_le_bytes()].concat();
            extra.extend(field(1, &wide));
            numbers = [u32::MAX; 3];
        }
        let line = &mut self.directory;
        line.extend_from_slice(&[b'P', b'K', 1, 2, 45, entry.host, 45, 0]);
        line.extend_from_slice(&entry.flags.to_le_bytes());
        line.extend_from_slice(&entry.method.to_le_bytes());
        line.extend_from_slice(&entry.time.0.to_le_bytes());
        line.extend_from_slice(&entry.time.1.to_le_bytes());
        line.extend_from_slice(&entry.crc.to_le_bytes());
        line.extend_from_slice(&numbers[0].to_le_bytes());
        line.extend_from_slice(&numbers[1].to_le_bytes());
        line.extend_from_slice(&(entry.name.len() as u16).to_le_bytes());
        line.extend_from_slice(&(extra.len() as u16).to_le_bytes());
        line.extend_from_slice(&[0; 6]); // comment, disk, inner attributes
        line.extend_from_slice(&(entry.mode << 16).to_le_bytes());
        line.extend_from_slice(&numbers[2].to_le_bytes());
        line.extend_from_slice(&entry.name);
        line.extend_from_slice(&extra);
        self.count += 1;
    }

    /// The archive, with a comment at its end.
    pub fn commented(&self, comment: &[u8]) -> Vec<u8> {
        let offset = self.bytes.len() as u64 - self.base;
        let end = end(self.count as u16, self.directory.len() as u32, offset as u32, comment);
        [&self.bytes[..], &self.directory, &end].concat()
    }

    pub fn done(&self) -> Vec<u8> {
        self.commented(b"")
    }

    /// The archive with a zip64 end.
    pub fn done_wide(&self) -> Vec<u8> {
        let offset = self.bytes.len() as u64 - self.base;
        let at = offset + self.directory.len() as u64;
        let record = record64(self.count, self.directory.len() as u64, offset);
        let end = end(u16::MAX, u32::MAX, u32::MAX, b"");
        [&self.bytes[..], &self.directory, &record, &locator(at), &end].concat()
    }
}

pub fn end(count: u16, length: u32, offset: u32, comment: &[u8]) -> Vec<u8> {
    let mut end = b"PK\x05\x06\0\0\0\0".to_vec();
    end.extend_from_slice(&count.to_le_bytes());
    end.extend_from_slice(&count.to_le_bytes());
    end.extend_from_slice(&length.to_le_bytes());
    end.extend_from_slice(&offset.to_le_bytes());
    end.extend_from_slice(&(comment.len() as u16).to_le_bytes());
    end.extend_from_slice(comment);
    end
}

pub fn record64(count: u64, length: u64, offset: u64) -> Vec<u8> {
    let mut record = b"PK\x06\x06".to_vec();
    record.extend_from_slice(&44u64.to_le_bytes());
    record.extend_from_slice(&[45, 3, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    for number in [count, count, length, offset] {
        record.extend_from_slice(&number.to_le_bytes());
    }
    record
}

pub fn locator(at: u64) -> Vec<u8> {
    [b"PK\x06\x07\0\0\0\0".as_slice(), &at.to_le_bytes(), &1u32.to_le_bytes()].concat()
}
