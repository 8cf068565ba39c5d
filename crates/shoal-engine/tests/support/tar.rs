//! A writer of tar archives that can write what no packer would.

#![allow(dead_code)] // each file that uses it uses its part

/// An archive in the making.
#[derive(Clone, Default)]
pub struct Tar(Vec<u8>);

/// One header: each method sets a field.
pub struct Header {
    block: [u8; 512],
    sized: bool,
    signed: bool,
}

impl Header {
    fn new() -> Header {
        let header = Header { block: [0; 512], sized: false, signed: false };
        header.field(100, b"0000644\0").field(136, b"14000000000\0").field(156, b"0").magic(b"ustar\x0000")
    }

    pub fn field(mut self, at: usize, bytes: &[u8]) -> Header {
        self.block[at..at + bytes.len()].copy_from_slice(bytes);
        self.sized |= at == 124;
        self
    }

    pub fn name(self, name: &str) -> Header {
        let name = &name.as_bytes()[..name.len().min(100)];
        self.field(0, name)
    }

    pub fn prefix(self, prefix: &str) -> Header {
        self.field(345, prefix.as_bytes())
    }

    pub fn link(self, target: &str) -> Header {
        self.field(157, target.as_bytes())
    }

    pub fn flag(self, flag: u8) -> Header {
        self.field(156, &[flag])
    }

    pub fn magic(self, magic: &[u8]) -> Header {
        self.field(257, &[0; 8]).field(257, magic)
    }

    pub fn mode(self, mode: u32) -> Header {
        self.field(100, format!("{mode:07o}\0").as_bytes())
    }

    pub fn size(self, size: u64) -> Header {
        match size < 1 << 33 {
            true => self.field(124, format!("{size:011o}\0").as_bytes()),
            false => self.size_256(size as i64),
        }
    }

    pub fn size_256(self, size: i64) -> Header {
        let first = if size < 0 { 0xff } else { 0x80 };
        let filler = if size < 0 { 0xff } else { 0 };
        self.field(124, &[&[first, filler, filler, filler][..], &size.to_be_bytes()].concat())
    }

    /// The checksum as if bytes were signed, with a name for which that makes a difference.
    pub fn signed_sum(mut self) -> Header {
        self.signed = true;
        self.field(500, &[0xff])
    }

    fn block(mut self) -> [u8; 512] {
        self.block[148..156].fill(b' ');
        let sum: i64 = match self.signed {
            true => self.block.iter().map(|&byte| i64::from(byte as i8)).sum(),
            false => self.block.iter().map(|&byte| i64::from(byte)).sum(),
        };
        self.block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.block
    }
}

/// A header that waits for its contents.
pub struct Begun<'t> {
    tar: &'t mut Tar,
    at: usize,
}

impl Tar {
    pub fn new() -> Tar {
        Tar::default()
    }

    pub fn file(&mut self, name: &str, data: &[u8]) -> &mut Tar {
        self.header(|header| header.name(name)).data(data)
    }

    /// A header; its length is that of what follows, where it is not set.
    pub fn header(&mut self, set: impl FnOnce(Header) -> Header) -> Begun<'_> {
        let at = self.0.len();
        let header = set(Header::new());
        let header = if header.sized { header } else { header.size(0) };
        self.0.extend_from_slice(&header.block());
        Begun { tar: self, at }
    }

    /// A pax header for the next entry.
    pub fn pax(&mut self, records: &[(&str, &[u8])]) -> &mut Tar {
        let records: Vec<u8> = records.iter().flat_map(|(key, value)| record(key, value)).collect();
        self.records(b'x', &records)
    }

    /// A header of a type, with these bytes.
    pub fn records(&mut self, flag: u8, records: &[u8]) -> &mut Tar {
        self.header(|header| header.name("extension").flag(flag).size(records.len() as u64)).raw(records)
    }

    /// A long name (`L`) or link (`K`) as GNU tar writes it.
    pub fn long(&mut self, flag: u8, text: &[u8]) -> &mut Tar {
        self.records(flag, &[text, b"\0"].concat())
    }

    /// Bytes, up to the end of a block.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Tar {
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    /// What has been written.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.clone()
    }

    /// The same with an end.
    pub fn end(&self) -> Vec<u8> {
        [&self.0[..], &[0; 1024]].concat()
    }
}

impl<'t> Begun<'t> {
    /// Contents of the length that the header gets.
    pub fn data(self, data: &[u8]) -> &'t mut Tar {
        let Begun { tar, at } = self;
        let mut block: [u8; 512] = tar.0[at..at + 512].try_into().expect("a block");
        let signed = Header { block, sized: false, signed: block[500] == 0xff };
        block = signed.size(data.len() as u64).block();
        tar.0[at..at + 512].copy_from_slice(&block);
        tar.raw(data)
    }

    /// Contents whose length the header does not get.
    pub fn raw(self, data: &[u8]) -> &'t mut Tar {
        self.tar.raw(data)
    }

    /// Blocks with one byte set in each, which do not count, before the contents.
    pub fn blocks(self, blocks: &[(usize, u8)], data: &[u8]) -> &'t mut Tar {
        let tar = self.data(data);
        let contents = data.len().next_multiple_of(512);
        let mut at = tar.0.len() - contents;
        for (place, value) in blocks {
            let mut block = vec![0; 512];
            block[*place] = *value;
            tar.0.splice(at..at, block);
            at += 512;
        }
        tar
    }
}

fn record(key: &str, value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while rest + length.to_string().len() != length {
        length = rest + length.to_string().len();
    }
    [length.to_string().as_bytes(), b" ", key.as_bytes(), b"=", value, b"\n"].concat()
}
