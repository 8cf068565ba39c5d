//! Parses pipelined answers from the bytes that a connection has received. Pure: no socket, no clock; fuzzed.
//!
//! An answer is returned only when it is complete and the bytes after it may begin the next one: a body that is longer
//! than announced is an error of its own object. Its id tells which request an answer is for.

use std::ops::Range;

use crate::body::Framing;
use crate::head::{self, Head, Wants};
use crate::request_id::Echo;
use shoal_core::error::{Error, Kind, Result};

/// Longest head, in bytes.
pub(crate) const HEAD_MAX: usize = 64 << 10;
/// Most 1xx answers before the final one.
pub(crate) const INTERIM_MAX: u32 = 8;
/// The first bytes of every answer.
pub(crate) const BEGIN: &[u8] = b"HTTP/1.";

/// How answers are matched with requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Each must have the id of its request.
    Ids,
    /// By order. If an answer has an id, it must be the right one.
    Order,
}

/// What is at the beginning of the unread bytes.
#[derive(Debug)]
pub(crate) enum Answer {
    /// An incomplete answer: at least so many unread bytes are needed.
    More(usize),
    /// A complete answer; it ends at `body.end`.
    Whole { head: Head, body: Range<usize> },
    /// The head of an answer with a large, chunked or encoded body, or one without a length, which begins at `body`.
    Begun { head: Head, body: usize },
}

/// Parses the answers of one connection, one after the other.
#[derive(Debug)]
pub(crate) struct Reader {
    trust: Trust,
    wants: Wants,
    whole_max: usize,
    /// Bytes of an incomplete head that were parsed already.
    seen: usize,
    /// The head of an incomplete body, and where the body begins. It is parsed once, however many reads the body takes.
    head: Option<(Head, usize)>,
    /// The last error was the answer to an earlier request: since some moment, each was taken for that to the next one.
    pub is_ahead: bool,
}

impl Reader {
    pub fn new(trust: Trust, wants: Wants, whole_max: usize) -> Reader {
        Reader { trust, wants, whole_max, seen: 0, head: None, is_ahead: false }
    }

    /// Whether the head of the next answer is complete and the right one, but not its body. If so, the answer before it
    /// was not longer than announced.
    pub fn has_head(&self) -> bool {
        self.head.is_some()
    }

    /// Parses the answer to the request with this id at the beginning of `unread`. `more`: other requests are
    /// unanswered, so another answer may follow. After [`Answer::More`], `unread` must begin at the same byte.
    ///
    /// # Errors
    /// [`Kind::Integrity`] if it is the answer to another request, [`Kind::ShortBody`] if its body is longer than
    /// announced, [`Kind::Protocol`] if it is not an answer.
    pub fn next(&mut self, unread: &[u8], id: &[u8], more: bool) -> Result<Answer> {
        if let Some((head, from)) = self.head.take() {
            return self.body(unread, head, from, more);
        }
        let (mut at, mut interim) = (0, 0);
        loop {
            let rest = &unread[at..];
            if !may_begin(rest) {
                return Err(Error::new(Kind::Protocol, "there is no answer where one should begin"));
            }
            // Parsed at the first bytes, which may show that this is not HTTP, and then only when it may be complete.
            let parse = self.seen <= at || head::may_end(unread, self.seen);
            let parsed = if parse { head::parse(rest, &self.wants, id)? } else { None };
            let Some((head, length)) = parsed else {
                if rest.len() >= HEAD_MAX {
                    return Err(Error::new(Kind::Protocol, format!("a head of more than {HEAD_MAX} bytes")));
                }
                self.seen = unread.len();
                return Ok(Answer::More(unread.len() + 1));
            };
            if head.echo == Echo::Another {
                self.is_ahead = true;
                return Err(Error::new(Kind::Protocol, "the answer to another request"));
            }
            if head.status / 100 == 1 {
                interim += 1;
                if interim > INTERIM_MAX {
                    return Err(Error::new(Kind::Protocol, "too many interim answers (1xx)"));
                }
                at += length;
                continue;
            }
            self.check(head.echo)?;
            return self.body(unread, head, at + length, more);
        }
    }

    fn body(&mut self, unread: &[u8], head: Head, from: usize, more: bool) -> Result<Answer> {
        match head.framing {
            // The decoded size of an encoded body is not known.
            Framing::Length(length) if length <= self.whole_max as u64 && head.to_decode().is_none() => {
                let end = from + length as usize;
                self.seen = 0;
                if unread.len() < end {
                    self.head = Some((head, from));
                    return Ok(Answer::More(end));
                }
                let behind = &unread[end..];
                if if more { !may_begin(behind) } else { !behind.is_empty() } {
                    let why = format!("{} bytes more than announced", behind.len());
                    return Err(Error::new(Kind::ShortBody, why));
                }
                Ok(Answer::Whole { head, body: from..end })
            }
            _ => {
                self.seen = 0;
                Ok(Answer::Begun { head, body: from })
            }
        }
    }

    fn check(&self, echo: Echo) -> Result<()> {
        match (echo, self.trust) {
            (Echo::Right, _) | (Echo::Missing, Trust::Order) => Ok(()),
            (Echo::Missing, Trust::Ids) => Err(Error::new(Kind::Integrity, "an answer without its request's id")),
            (Echo::Wrong | Echo::Another, _) => Err(Error::new(Kind::Integrity, "the answer to another request")),
        }
    }
}

/// Whether an answer may begin with these bytes, of which there may be none.
pub(crate) fn may_begin(bytes: &[u8]) -> bool {
    let known = bytes.len().min(BEGIN.len());
    bytes[..known] == BEGIN[..known]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_a_body_that_comes_in_pieces_is_parsed_once() {
        let mut wire = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: y\r\n\r\nhello".to_vec();
        let (head, whole) = (wire.len() - 5, wire.len());
        let mut reader = Reader::new(Trust::Order, Wants::default(), 512);
        assert!(matches!(reader.next(&wire[..head + 1], b"", false), Ok(Answer::More(more)) if more == whole));
        assert!(reader.has_head());
        // What is not looked at again may as well be something else.
        wire[..head].fill(b'?');
        for end in head + 1..whole {
            assert!(matches!(reader.next(&wire[..end], b"", false), Ok(Answer::More(more)) if more == whole));
        }
        let Ok(Answer::Whole { body, .. }) = reader.next(&wire, b"", false) else { panic!("all of it is there") };
        assert_eq!((&wire[body], reader.has_head()), (&b"hello"[..], false));
    }
}
