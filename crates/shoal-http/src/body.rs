//! How a body is framed, and how it is taken from a buffer in pieces. Pure: no socket. Not here: the head (`head.rs`).

use shoal_core::display::escape;
use shoal_core::error::{Error, Kind, Result};

/// Longest chunk-size line with its extension, in bytes.
const SIZE_LINE_MAX: usize = 1024;
/// Most bytes of trailers.
const TRAILERS_MAX: usize = 8 << 10;

/// Where a body ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Framing {
    /// After so many more bytes.
    Length(u64),
    Chunked(Chunks),
    /// When the connection is closed: whether that is all of it is unknown.
    Close,
}

/// Progress through a chunked body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Chunks {
    /// A chunk-size line is next.
    Size,
    /// So many bytes of a chunk are next.
    Data(u64),
    /// The line break after a chunk is next.
    DataEnd,
    /// Trailers are next; so many bytes of them were read.
    Trailers(usize),
    End,
}

/// One step through a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Skip `skip` bytes of the buffer. The next `take` bytes belong to the object.
    Piece { skip: usize, take: usize },
    /// Skip `skip` bytes. The body is complete.
    End { skip: usize },
    /// More bytes must be received.
    More,
}

impl Framing {
    pub fn chunked() -> Framing {
        Framing::Chunked(Chunks::Size)
    }

    /// Examines the buffer. The caller must remove `skip` and `take` bytes before the next call.
    ///
    /// # Errors
    /// [`Kind::Protocol`] for a malformed chunk.
    pub fn step(&mut self, buffer: &[u8]) -> Result<Step> {
        match self {
            Framing::Length(0) => Ok(Step::End { skip: 0 }),
            _ if buffer.is_empty() => Ok(Step::More),
            Framing::Length(left) => {
                let take = usize::try_from(*left).unwrap_or(usize::MAX).min(buffer.len());
                *left -= take as u64;
                Ok(Step::Piece { skip: 0, take })
            }
            Framing::Close => Ok(Step::Piece { skip: 0, take: buffer.len() }),
            Framing::Chunked(chunks) => chunks.step(buffer),
        }
    }
}

impl Chunks {
    fn step(&mut self, buffer: &[u8]) -> Result<Step> {
        let mut skip = 0;
        loop {
            let rest = &buffer[skip..];
            match self {
                Chunks::Size => {
                    let Some(line) = line(rest, SIZE_LINE_MAX, "a chunk-size line")? else { return Ok(more(skip)) };
                    *self = match size(&rest[..line])? {
                        0 => Chunks::Trailers(0),
                        size => Chunks::Data(size),
                    };
                    skip += line + 2;
                }
                Chunks::Data(_) if rest.is_empty() => return Ok(more(skip)),
                Chunks::Data(left) => {
                    let take = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
                    *left -= take as u64;
                    if *left == 0 {
                        *self = Chunks::DataEnd;
                    }
                    return Ok(Step::Piece { skip, take });
                }
                Chunks::DataEnd => match rest {
                    [b'\r', b'\n', ..] => {
                        *self = Chunks::Size;
                        skip += 2;
                    }
                    [] | [b'\r'] => return Ok(more(skip)),
                    _ => return Err(Error::new(Kind::Protocol, "a chunk is longer than it says")),
                },
                Chunks::Trailers(seen) => {
                    let Some(line) = line(rest, TRAILERS_MAX - *seen, "the trailers")? else { return Ok(more(skip)) };
                    *seen += line + 2;
                    skip += line + 2;
                    if line == 0 {
                        *self = Chunks::End;
                    } else if *seen >= TRAILERS_MAX {
                        return Err(too_long("the trailers", TRAILERS_MAX));
                    }
                }
                Chunks::End => return Ok(Step::End { skip }),
            }
        }
    }
}

/// Skips processed bytes even if more must be received, so that the buffer never fills with them.
fn more(skip: usize) -> Step {
    if skip == 0 { Step::More } else { Step::Piece { skip, take: 0 } }
}

/// The length of the line at the start of `buffer`, without its CR LF; `None` if it is incomplete.
fn line(buffer: &[u8], most: usize, what: &str) -> Result<Option<usize>> {
    let Some(end) = memchr::memchr(b'\n', &buffer[..buffer.len().min(most + 2)]) else {
        return if buffer.len() >= most + 2 { Err(too_long(what, most)) } else { Ok(None) };
    };
    match end.checked_sub(1).map(|before| (before, buffer[before])) {
        Some((before, b'\r')) => Ok(Some(before)),
        _ => Err(Error::new(Kind::Protocol, "a line of a chunked body does not end in CR LF")),
    }
}

fn size(line: &[u8]) -> Result<u64> {
    let digits = line.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii_end();
    let legal = !digits.is_empty() && digits.len() <= 16 && digits.iter().all(u8::is_ascii_hexdigit);
    legal
        .then(|| u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok())
        .flatten()
        .ok_or_else(|| Error::new(Kind::Protocol, format!("a chunk size of \"{}\"", escape(digits))))
}

fn too_long(what: &str, most: usize) -> Error {
    Error::new(Kind::Protocol, format!("{what} is longer than {most} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `wire` in pieces of `size` bytes. Returns the object, the error's kind, or `None` if it has not ended.
    fn feed(wire: &[u8], size: usize) -> Result<Option<Vec<u8>>, Kind> {
        let (mut framing, mut buffer, mut object) = (Framing::chunked(), Vec::new(), Vec::new());
        for piece in wire.chunks(size) {
            buffer.extend_from_slice(piece);
            loop {
                match framing.step(&buffer).map_err(|e| e.kind())? {
                    Step::More => break,
                    Step::Piece { skip, take } => {
                        object.extend_from_slice(&buffer[skip..skip + take]);
                        buffer.drain(..skip + take);
                    }
                    Step::End { skip } => {
                        buffer.drain(..skip);
                        return Ok(Some(object));
                    }
                }
            }
        }
        Ok(None)
    }

    #[test]
    fn chunks_come_out_whole_however_they_are_cut() {
        let wire = b"5\r\nhello\r\n1;ext=\"x\"\r\n \r\n05 \r\nworld\r\n0\r\nTrailer: x\r\n\r\n";
        for size in 1..wire.len() {
            assert_eq!(feed(wire, size), Ok(Some(b"hello world".to_vec())), "in pieces of {size}");
        }
        for end in 0..wire.len() {
            assert_eq!(feed(&wire[..end], 7), Ok(None), "cut at {end}");
        }
    }

    #[test]
    fn malformed_chunks_are_refused() {
        for wire in
            ["g\r\n", "\r\n", "-1\r\n", "5\nhello", "3\r\nhello\r\n", "11111111111111111\r\n", "0x5\r\nhello\r\n"]
        {
            assert_eq!(feed(wire.as_bytes(), 3), Err(Kind::Protocol), "{wire:?}");
        }
        let giant = ["5;".as_bytes(), &vec![b'x'; 5000], b"\r\nhello\r\n0\r\n\r\n"].concat();
        assert_eq!(feed(&giant, 100), Err(Kind::Protocol));
        let trailers = [&b"0\r\n"[..], &b"T: xxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n".repeat(1000)].concat();
        assert_eq!(feed(&trailers, 100), Err(Kind::Protocol));
    }
}
