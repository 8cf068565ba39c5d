//! Checksums of whole objects, which stores send in headers of their answers. Not here: what follows if one is wrong.

use crc::{CRC_32_ISCSI, CRC_32_ISO_HDLC, CRC_64_NVME, Crc, Digest, Table};
use ring::digest::{Context, SHA256};
use shoal_http::{Head, base64};

static CRC32: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISO_HDLC);
static CRC32C: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);
static CRC64: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_NVME);

/// The headers, in the order in which they are looked for: the cheapest first.
pub(crate) const HEADERS: [&str; 4] =
    ["x-amz-checksum-crc64nvme", "x-amz-checksum-crc32c", "x-amz-checksum-crc32", "x-amz-checksum-sha256"];

/// Says whether that is of the whole object.
pub(crate) const TYPE: &str = "x-amz-checksum-type";

/// The checksum of an object as it arrives, and what it must be.
pub(crate) struct Checksum {
    expected: Box<str>,
    sum: Sum,
}

enum Sum {
    Crc32(Digest<'static, u32, Table<16>>),
    Crc64(Digest<'static, u64, Table<16>>),
    Sha256(Box<Context>),
}

impl Checksum {
    /// That of an answer. One of a multipart object has a number of parts behind it, and is of the checksums of those: it
    /// cannot be compared.
    pub fn of(head: &Head) -> Option<Checksum> {
        if head.field(TYPE).is_some_and(|of| of.eq_ignore_ascii_case(b"COMPOSITE")) {
            return None;
        }
        let (at, expected) = HEADERS.iter().enumerate().find_map(|(at, name)| Some((at, head.field(name)?)))?;
        let sum = match at {
            0 => Sum::Crc64(CRC64.digest()),
            1 => Sum::Crc32(CRC32C.digest()),
            2 => Sum::Crc32(CRC32.digest()),
            _ => Sum::Sha256(Box::new(Context::new(&SHA256))),
        };
        let expected = std::str::from_utf8(expected).ok().filter(|text| !text.contains('-'))?;
        Some(Checksum { expected: expected.into(), sum })
    }

    /// The next bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        match &mut self.sum {
            Sum::Crc32(sum) => sum.update(bytes),
            Sum::Crc64(sum) => sum.update(bytes),
            Sum::Sha256(sum) => sum.update(bytes),
        }
    }

    /// Whether it is right.
    pub fn matches(self) -> bool {
        let found = match self.sum {
            Sum::Crc32(sum) => base64(&sum.finalize().to_be_bytes()),
            Sum::Crc64(sum) => base64(&sum.finalize().to_be_bytes()),
            Sum::Sha256(sum) => base64(sum.finish().as_ref()),
        };
        *self.expected == *found
    }
}
