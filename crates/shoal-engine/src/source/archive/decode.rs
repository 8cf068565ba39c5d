//! Streaming decompressors behind one type, for the entries of zip archives and for compressed tar archives.
//!
//! Here: the methods, how much memory each may use, and the meaning of its errors. Not here: limits of the output and
//! its checksum (the formats), unpacking whole entries at once (`source/zip/`).
//!
//! Streams are not trusted. The method bounds the memory, not the stream: zstd and xz declare the window that they need
//! in their header, and a window over [`WINDOW_MAX`] is refused before it is allocated. Only one large window is in use
//! at a time (`decoder_memory.rs`). A decoder that has failed stays failed.

use std::io::{self, BufRead, BufReader, Read};

use crate::error::{Error, Kind, Result};

/// The largest window that a stream may declare, in bytes. `xz -9` needs this much. `zstd --ultra -22` and `--long`
/// need twice as much, which is more than a whole run may use. Untouched pages cost nothing.
pub(crate) const WINDOW_MAX: u32 = 64 << 20;
/// The largest window that every lane may have at once, in bytes. `xz -6` and `zstd -19` need this much.
pub(crate) const WINDOW_EACH: u32 = 8 << 20;
/// Memory of an xz decoder besides its window, in KiB, rounded up.
const XZ_REST: u32 = 1 << 10;
/// Compressed bytes read at once.
const INPUT: usize = 64 << 10;

/// How bytes are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// Not compressed.
    Stored,
    Deflate,
    Deflate64,
    /// One or more streams.
    Bzip2,
    /// One or more frames.
    Zstd,
    /// One or more streams.
    Xz,
    /// As in a zip archive: with a header of 9 bytes.
    Lzma,
    /// One or more members, then zeros.
    Gzip,
}

impl Method {
    /// Returns the method of a zip entry.
    pub fn of_zip(number: u16) -> Option<Method> {
        Some(match number {
            0 => Method::Stored,
            8 => Method::Deflate,
            9 => Method::Deflate64,
            12 => Method::Bzip2,
            14 => Method::Lzma,
            93 => Method::Zstd,
            95 => Method::Xz,
            _ => return None,
        })
    }

    /// Returns how a whole file is compressed, by its first [`MAGIC`] bytes; `None` if no known method.
    pub fn of_file(first: &[u8]) -> Option<Method> {
        match first {
            [0x1f, 0x8b, 8, ..] => Some(Method::Gzip),
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Some(Method::Bzip2),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Method::Xz),
            // A frame, or a skippable frame.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Method::Zstd),
            _ => None,
        }
    }

    /// The name that users know.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Stored => "stored",
            Method::Deflate => "deflate",
            Method::Deflate64 => "deflate64",
            Method::Bzip2 => "bzip2",
            Method::Zstd => "zstd",
            Method::Xz => "xz",
            Method::Lzma => "lzma",
            Method::Gzip => "gzip",
        }
    }
}

/// First bytes of a file that `Method::of_file` looks at.
pub(crate) const MAGIC: usize = 6;

/// Decompresses a stream.
pub(crate) struct Decoder<'r> {
    reader: Box<dyn Read + 'r>,
    method: Method,
    /// Bytes unpacked so far, for messages.
    out: u64,
    /// Whether it has ended or failed.
    state: State,
}

enum State {
    Going,
    Ended,
    Failed(Kind, String),
}

impl<'r> Decoder<'r> {
    /// Creates a decoder of `input`, which contains only the compressed bytes. `length` is the unpacked length, for
    /// lzma without an end marker.
    ///
    /// # Errors [`Kind::Integrity`] if it does not begin like a stream of this method, [`Kind::TooLarge`] if it
    /// declares a window over [`WINDOW_MAX`], or the error of reading `input`. `read` may return the same errors later.
    pub fn new(method: Method, input: impl Read + 'r, length: Option<u64>) -> Result<Decoder<'r>> {
        Decoder::within(WINDOW_MAX, method, input, length)
    }

    /// The same with another limit for the window, a power of two.
    ///
    /// # Errors
    /// As of [`Decoder::new`].
    pub fn within(window: u32, method: Method, input: impl Read + 'r, length: Option<u64>) -> Result<Decoder<'r>> {
        let reader = reader(window, method, input, length).map_err(|error| meaning(method, 0, error))?;
        Ok(Decoder { reader, method, out: 0, state: State::Going })
    }

    /// Reads the next bytes. Returns 0 at the end.
    ///
    /// # Errors
    /// As of [`Decoder::new`].
    pub fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        match &self.state {
            State::Going if into.is_empty() => return Ok(0),
            State::Going => {}
            State::Ended => return Ok(0),
            State::Failed(kind, why) => return Err(Error::new(*kind, why.clone())),
        }
        loop {
            match self.reader.read(into) {
                Ok(0) => self.state = State::Ended,
                Ok(read) => {
                    self.out += read as u64;
                    return Ok(read);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    let error = meaning(self.method, self.out, error);
                    self.state = State::Failed(error.kind(), error.why().to_owned());
                    return Err(error);
                }
            }
            return Ok(0);
        }
    }

    /// Reads until `into` is full or the stream ends.
    pub fn fill(&mut self, into: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < into.len() {
            match self.read(&mut into[filled..])? {
                0 => break,
                read => filled += read,
            }
        }
        Ok(filled)
    }
}

/// Carries an error of the engine through a decoder.
pub(crate) fn carried(error: Error) -> io::Error {
    io::Error::other(error)
}

fn reader<'r>(most: u32, method: Method, input: impl Read + 'r, length: Option<u64>) -> io::Result<Box<dyn Read + 'r>> {
    let mut input = BufReader::with_capacity(INPUT, input);
    Ok(match method {
        Method::Stored => Box::new(input),
        Method::Deflate => Box::new(flate2::bufread::DeflateDecoder::new(input)),
        Method::Deflate64 => Box::new(deflate64::Deflate64Decoder::with_buffer(input)),
        Method::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(input)),
        Method::Gzip => Box::new(Members::new(Box::new(input))),
        Method::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(input)?;
            decoder.window_log_max(most.ilog2())?;
            Box::new(decoder)
        }
        Method::Xz => {
            let limit = (most >> 10) + XZ_REST;
            Box::new(lzma_rust2::XzReader::new_mem_limit(Full(input), true, limit))
        }
        Method::Lzma => {
            let (properties, window) = lzma_header(&mut input, most)?;
            // Without a length, the stream ends at its marker.
            let length = length.unwrap_or(u64::MAX);
            Box::new(lzma_rust2::LzmaReader::new_with_props(input, length, properties, window, None)?)
        }
    })
}

/// Reads the header of lzma in a zip archive: version of the packer, length of the properties, properties.
fn lzma_header(input: &mut impl Read, most: u32) -> io::Result<(u8, u32)> {
    let mut header = [0; 9];
    input.read_exact(&mut header)?;
    let [_, _, 5, 0, properties, window @ ..] = header else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "its header is not one of lzma in a zip archive"));
    };
    match u32::from_le_bytes(window) {
        window if window > most => Err(io::ErrorKind::OutOfMemory.into()),
        window => Ok((properties, window)),
    }
}

/// The members of a gzip file. Skips zeros after the last one, as `gzip` does: programs that write blocks, as to a
/// tape, pad the last block.
struct Members<'r> {
    member: flate2::bufread::GzDecoder<Box<dyn BufRead + 'r>>,
    /// Zeros were found after a member.
    padded: bool,
}

impl<'r> Members<'r> {
    fn new(input: Box<dyn BufRead + 'r>) -> Members<'r> {
        Members { member: flate2::bufread::GzDecoder::new(input), padded: false }
    }

    /// Skips zeros after a member. Returns whether another member follows.
    fn goes_on(&mut self) -> io::Result<bool> {
        loop {
            let held = self.member.get_mut().fill_buf()?;
            let length = held.len();
            let zeros = held.iter().position(|&byte| byte != 0).unwrap_or(length);
            self.padded |= zeros > 0;
            self.member.get_mut().consume(zeros);
            match (zeros < length, self.padded) {
                (true, true) => {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "there is data after its padding"));
                }
                (true, false) => return Ok(true),
                (false, _) if length == 0 => return Ok(false),
                (false, _) => {}
            }
        }
    }
}

impl Read for Members<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.member.read(into)?;
            if read > 0 || into.is_empty() || !self.goes_on()? {
                return Ok(read);
            }
            let input = self.member.reset(Box::new(io::empty()));
            self.member.reset(input);
        }
    }
}

/// Makes reads short only at the end: the xz reader takes any short read for the end.
struct Full<R>(R);

impl<R: Read> Read for Full<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < into.len() {
            match self.0.read(&mut into[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}

/// Converts an error of a decoder to ours: the messages of most decoders are not for users.
fn meaning(method: Method, out: u64, error: io::Error) -> Error {
    let kind = error.kind();
    let error = match error.downcast::<Error>() {
        Ok(error) => return error, // of reading the input
        Err(error) => error,
    };
    let (method, text) = (method.as_str(), error.to_string());
    if kind == io::ErrorKind::OutOfMemory || text.contains("too much memory") {
        let limit = WINDOW_MAX >> 20;
        return Error::new(Kind::TooLarge, format!("the {method} stream needs a window of more than {limit} MiB"))
            .hint(format!("compress it again with a window of {limit} MiB or less"));
    }
    let why = match kind {
        io::ErrorKind::Unsupported => {
            return Error::new(Kind::Unsupported, format!("the {method} stream cannot be unpacked: {text}"));
        }
        io::ErrorKind::UnexpectedEof => format!("the {method} stream ends early, after {out} unpacked bytes"),
        _ => format!("the {method} stream is damaged after {out} unpacked bytes: {text}"),
    };
    Error::new(Kind::Integrity, why)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn data() -> Vec<u8> {
        (0..200_000u32).flat_map(|n| (n / 7).to_le_bytes()).collect()
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    }

    fn bzip2(bytes: &[u8]) -> Vec<u8> {
        let mut packer = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    }

    fn xz(bytes: &[u8], window: u32) -> Vec<u8> {
        let mut options = lzma_rust2::XzOptions::with_preset(1);
        options.lzma_options.dict_size = window;
        let mut packer = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    }

    fn deflate(bytes: &[u8]) -> Vec<u8> {
        let mut packer = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::new(6));
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    }

    /// As zip archives hold it.
    fn lzma(bytes: &[u8], marked: bool) -> Vec<u8> {
        let options = lzma_rust2::LzmaOptions::with_preset(1);
        let (properties, window) = (options.get_props(), options.dict_size.to_le_bytes());
        let mut packer = lzma_rust2::LzmaWriter::new_no_header(Vec::new(), &options, marked).unwrap();
        packer.write_all(bytes).unwrap();
        [&[9, 20, 5, 0, properties][..], &window, &packer.finish().unwrap()].concat()
    }

    fn unpack(method: Method, packed: &[u8], length: Option<u64>) -> Result<Vec<u8>> {
        let mut decoder = Decoder::new(method, packed, length)?;
        let mut out = vec![0; 8 << 20];
        let filled = decoder.fill(&mut out)?;
        assert_eq!(decoder.read(&mut [0]).unwrap(), 0);
        out.truncate(filled);
        Ok(out)
    }

    #[test]
    fn every_method_unpacks_what_was_packed_and_several_streams_in_a_row() {
        let data = data();
        let length = Some(data.len() as u64);
        assert_eq!(unpack(Method::Stored, &data, None).unwrap(), data);
        assert_eq!(unpack(Method::Deflate, &deflate(&data), None).unwrap(), data);
        assert_eq!(unpack(Method::Lzma, &lzma(&data, true), None).unwrap(), data);
        assert_eq!(unpack(Method::Lzma, &lzma(&data, true), length).unwrap(), data);
        assert_eq!(unpack(Method::Lzma, &lzma(&data, false), length).unwrap(), data);
        for (method, packed) in [
            (Method::Gzip, gzip(&data)),
            (Method::Bzip2, bzip2(&data)),
            (Method::Xz, xz(&data, 1 << 20)),
            (Method::Zstd, zstd::encode_all(&data[..], 3).unwrap()),
        ] {
            assert_eq!(Method::of_file(&packed[..MAGIC]), Some(method));
            assert!(unpack(method, &packed, None).unwrap() == data, "{method:?}");
            let twice = unpack(method, &packed.repeat(2), None).unwrap();
            assert!(twice == data.repeat(2), "{method:?}");
        }
        // Programs that write deflate64 are rare. Short matches have the same codes in deflate.
        assert_eq!(unpack(Method::Deflate64, &deflate(b"abcabcabcabc"), None).unwrap(), b"abcabcabcabc");
    }

    #[test]
    fn a_stream_cut_anywhere_or_flipped_is_an_error_or_shorter_and_never_more() {
        let data = &data()[..3000];
        let streams = [
            (Method::Gzip, gzip(data)),
            (Method::Bzip2, bzip2(data)),
            (Method::Xz, xz(data, 1 << 16)),
            (Method::Zstd, zstd::encode_all(data, 3).unwrap()),
            (Method::Deflate, deflate(data)),
            (Method::Deflate64, deflate(data)),
            (Method::Lzma, lzma(data, true)),
        ];
        for (method, packed) in &streams {
            for end in 0..packed.len() {
                match unpack(*method, &packed[..end], None) {
                    Ok(out) => assert!(data.starts_with(&out), "{method:?} cut at {end}"),
                    Err(error) => assert_eq!(error.kind(), Kind::Integrity, "{method:?} cut at {end}"),
                }
            }
            for at in 0..packed.len() {
                let mut flipped = packed.clone();
                flipped[at] ^= 0x40;
                let _ = unpack(*method, &flipped, None); // any result is fine, but no panic
            }
        }
    }

    #[test]
    fn a_window_over_the_limit_is_refused_by_name_before_it_is_allocated() {
        let mut wide = zstd::stream::Encoder::new(Vec::new(), 3).unwrap();
        wide.window_log(WINDOW_MAX.ilog2() + 1).unwrap();
        wide.include_contentsize(false).unwrap();
        wide.write_all(b"x").unwrap();
        let mut header = lzma(b"x", true);
        header[5..9].copy_from_slice(&(WINDOW_MAX + 1).to_le_bytes());
        // The block header of an xz stream names its window at its ninth byte, under a checksum.
        let mut of_xz = xz(b"x", 1 << 16);
        let block = 12..12 + 4 * (of_xz[12] as usize + 1);
        let window = block.start + 4;
        of_xz[window] = 30; // 128 MiB
        let sum = crc32fast::hash(&of_xz[block.start..block.end - 4]);
        of_xz[block.end - 4..block.end].copy_from_slice(&sum.to_le_bytes());
        let streams = [(Method::Zstd, wide.finish().unwrap()), (Method::Lzma, header), (Method::Xz, of_xz)];
        for (method, packed) in streams {
            let error = unpack(method, &packed, None).unwrap_err();
            assert_eq!(error.kind(), Kind::TooLarge, "{method:?}: {error}");
            assert!(error.why().contains("64 MiB"), "{error}");
        }
    }

    #[test]
    fn an_error_of_the_file_comes_through_as_it_is_and_stays() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(carried(Error::new(Kind::Changed, "the archive changed while it was read")))
            }
        }
        for method in [Method::Stored, Method::Deflate, Method::Gzip, Method::Zstd, Method::Xz, Method::Bzip2] {
            let mut decoder = Decoder::new(method, Broken, None).unwrap();
            for _ in 0..2 {
                let error = decoder.read(&mut [0; 10]).unwrap_err();
                assert_eq!(error.kind(), Kind::Changed, "{method:?}: {error}");
            }
        }
    }
}
