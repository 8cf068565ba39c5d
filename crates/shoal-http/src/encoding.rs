//! Decodes content encodings that were not requested: gzip and deflate, in pieces, verified to the end. Pure.
//!
//! shoal requests `identity`. A proxy that compresses anyway must not change every object, so what can be decoded and
//! verified is. Any other encoding is a failure of the object. Not here: which bodies are kept as they were sent; the
//! handler decides that.

use flate2::{Decompress, FlushDecompress, Status};

use crate::head::Head;
use shoal_core::error::{Error, Kind, Result};

/// Decoded bytes that are passed on at once.
const PIECE: usize = 32 << 10;
/// Most decoded bytes, or `RATIO` times those received if that is more, as for archives. Deflate reaches 1,032 times.
const GROWN_MAX: u64 = 64 << 20;
const RATIO: u64 = 100;
/// Window of every gzip and zlib stream, in bits.
const WINDOW: u8 = 15;

/// The name of an encoding as RFC 9110 has it.
pub(crate) fn name(encoding: &str) -> String {
    let name = encoding.trim().to_ascii_lowercase();
    name.strip_prefix("x-").unwrap_or(&name).to_owned()
}

/// A body that is being decoded.
pub(crate) struct Decoding {
    form: Form,
    /// `None`: deflate's first two bytes are missing, or a gzip member has ended.
    stream: Option<Decompress>,
    /// The first byte of deflate, until the second one tells the form.
    first: Option<u8>,
    out: Vec<u8>,
    /// Bytes received and bytes decoded.
    taken: u64,
    given: u64,
    /// Number of complete members.
    members: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Gzip,
    /// With a zlib header, as the RFC says, or without, as some servers send it.
    Deflate,
}

impl Decoding {
    /// The decoder for the body after this head; `None` if it is not encoded, or wanted as it was sent.
    ///
    /// # Errors
    /// [`Kind::Unsupported`] for other encodings.
    pub fn of(head: &Head) -> Result<Option<Decoding>> {
        let Some(encoding) = head.to_decode() else { return Ok(None) };
        let form = match name(encoding).as_str() {
            "gzip" => Form::Gzip,
            "deflate" => Form::Deflate,
            _ => {
                let why = "which shoal did not request and cannot decode";
                let why = format!("the answer has Content-Encoding \"{encoding}\", {why}");
                return Err(Error::new(Kind::Unsupported, why));
            }
        };
        Ok(Some(Decoding { form, stream: None, first: None, out: Vec::new(), taken: 0, given: 0, members: 0 }))
    }

    /// The name of the encoding.
    pub fn name(&self) -> &'static str {
        match self.form {
            Form::Gzip => "gzip",
            Form::Deflate => "deflate",
        }
    }

    /// Decodes the next bytes of the body, and passes the result to `emit`.
    ///
    /// # Errors
    /// [`Kind::Integrity`] if they are not valid, [`Kind::TooLarge`] if the result is, and the errors of `emit`.
    pub fn decode(&mut self, piece: &[u8], emit: &mut impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.taken += piece.len() as u64;
        let mut rest = piece;
        while !rest.is_empty() {
            let first = match (&self.stream, self.form, self.first.take()) {
                (None, Form::Deflate, _) if self.members > 0 => {
                    return Err(self.broken("there are bytes after its end"));
                }
                (None, Form::Deflate, None) => {
                    self.first = Some(rest[0]);
                    rest = &rest[1..];
                    continue;
                }
                (None, Form::Deflate, Some(first)) => {
                    let zlib = first & 15 == 8 && (u16::from(first) << 8 | u16::from(rest[0])) % 31 == 0;
                    self.stream = Some(Decompress::new(zlib));
                    Some([first])
                }
                (None, Form::Gzip, _) => {
                    self.stream = Some(Decompress::new_gzip(WINDOW));
                    None
                }
                (Some(_), ..) => None,
            };
            if let Some(first) = first {
                self.inflate(&first, emit)?;
            }
            let used = self.inflate(rest, emit)?;
            rest = &rest[used..];
        }
        Ok(())
    }

    /// Decodes `input` until all of it is used or the stream ends. Returns how much was used.
    fn inflate(&mut self, input: &[u8], emit: &mut impl FnMut(&[u8]) -> Result<()>) -> Result<usize> {
        let mut used = 0;
        while let Some(stream) = &mut self.stream {
            self.out.clear();
            self.out.reserve(PIECE);
            let before = stream.total_in();
            let status = stream.decompress_vec(&input[used..], &mut self.out, FlushDecompress::None);
            let taken = (stream.total_in() - before) as usize;
            let Ok(status) = status else { return Err(self.broken("its bytes or checksum are wrong")) };
            used += taken;
            self.given += self.out.len() as u64;
            if self.given > GROWN_MAX && self.given > self.taken.saturating_mul(RATIO) {
                let why = format!("encoded as {}, {} bytes became more than {}", self.name(), self.taken, self.given);
                return Err(Error::new(Kind::TooLarge, why));
            }
            if !self.out.is_empty() {
                emit(&self.out)?;
            }
            match status {
                Status::StreamEnd => {
                    self.members += 1;
                    self.stream = None;
                }
                _ if taken == 0 && self.out.is_empty() => break,
                _ => {}
            }
        }
        Ok(used)
    }

    /// Verifies at the end of the body that the encoded stream is complete.
    ///
    /// # Errors
    /// [`Kind::Integrity`] if it is not.
    pub fn end(&self) -> Result<()> {
        match self.members > 0 && self.stream.is_none() {
            true => Ok(()),
            false => Err(self.broken("its end is missing")),
        }
    }

    fn broken(&self, why: &str) -> Error {
        let name = self.name();
        let why = format!("the answer has Content-Encoding {name}, which shoal did not request, and {why}");
        Error::new(Kind::Integrity, why)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn decoding(encoding: &str) -> Decoding {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Encoding: {encoding}\r\n\r\n");
        Decoding::of(&crate::head::parse(head.as_bytes(), &crate::head::Wants::default(), b"").unwrap().unwrap().0)
            .unwrap()
            .unwrap()
    }

    fn decode(encoding: &str, packed: &[u8], size: usize) -> Result<Vec<u8>, Kind> {
        let (mut decoding, mut data) = (decoding(encoding), Vec::new());
        for piece in packed.chunks(size) {
            let mut emit = |bytes: &[u8]| -> Result<()> {
                data.extend_from_slice(bytes);
                Ok(())
            };
            decoding.decode(piece, &mut emit).map_err(|error| error.kind())?;
        }
        decoding.end().map(|()| data).map_err(|error| error.kind())
    }

    fn packed(data: &[u8]) -> [(&'static str, Vec<u8>); 3] {
        let level = flate2::Compression::fast();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), level);
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), level);
        let mut raw = flate2::write::DeflateEncoder::new(Vec::new(), level);
        gzip.write_all(data).unwrap();
        zlib.write_all(data).unwrap();
        raw.write_all(data).unwrap();
        [("gzip", gzip.finish().unwrap()), ("deflate", zlib.finish().unwrap()), ("deflate", raw.finish().unwrap())]
    }

    #[test]
    fn every_form_comes_out_whole_however_it_is_cut_and_never_when_cut_short() {
        let text: Vec<u8> = (0..300).flat_map(|n: u32| format!("line {n}\n").into_bytes()).collect();
        for data in [&b""[..], b"x", &text] {
            for (encoding, packed) in packed(data) {
                for size in [1, 2, 3, 7, packed.len()] {
                    assert_eq!(decode(encoding, &packed, size).as_deref(), Ok(data), "{encoding} in pieces of {size}");
                }
                for end in 0..packed.len() {
                    assert_eq!(decode(encoding, &packed[..end], 100), Err(Kind::Integrity), "{encoding} cut at {end}");
                }
                let behind = [&packed[..], b"more"].concat();
                assert_eq!(decode(encoding, &behind, behind.len()), Err(Kind::Integrity), "{encoding}");
            }
        }
    }

    #[test]
    fn members_of_gzip_stand_behind_each_other() {
        let [(encoding, first), ..] = packed(b"one ");
        let [(_, second), ..] = packed(b"two");
        let both = [first, second].concat();
        for size in 1..both.len() {
            assert_eq!(decode(encoding, &both, size).unwrap(), b"one two");
        }
    }
}
