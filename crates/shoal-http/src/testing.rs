//! The response reader without a socket: what the fuzz target `answers` and the test over its corpus run.
//!
//! Requests have the ids `id-0`, `id-1`, …: a real one cannot be guessed, and then nothing interesting would happen.

use std::ops::Range;

use shoal_core::error::Kind;

use crate::body::{Framing, Step};
use crate::head::Wants;
use crate::reader::{Answer, Reader, Trust};

/// Larger bodies are read piece by piece, in bytes: small, so that both ways are walked.
const WHOLE_MAX: usize = 512;

/// One answer that was accepted.
#[derive(Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Its status.
    pub status: u16,
    /// Where its head (with interim answers before it) is in the wire.
    pub head: Range<usize>,
    /// Its body, out of its framing.
    pub body: Vec<u8>,
    /// Its length was announced, and so many bytes follow the head.
    pub announced: Option<u64>,
}

/// Reads `wire` as the answers to `requests` requests, in pieces of `piece` bytes. Those accepted, and what ended it: an
/// error, or `None` when all were answered, more is needed, or a body ends with the connection.
pub fn read_answers(wire: &[u8], piece: usize, requests: usize, ids: bool) -> (Vec<Accepted>, Option<Kind>) {
    let mut reader =
        Reader::new(if ids { Trust::Ids } else { Trust::Order }, Wants::fields(&["content-type", "etag"]), WHOLE_MAX);
    let (mut accepted, mut start, mut end) = (Vec::new(), 0, 0);
    let mut needed = 1;
    while accepted.len() < requests {
        while end - start < needed {
            if end == wire.len() {
                return (accepted, None);
            }
            end = (end + piece.max(1)).min(wire.len());
        }
        let id = format!("id-{}", accepted.len());
        let more = accepted.len() + 1 < requests;
        match reader.next(&wire[start..end], id.as_bytes(), more) {
            Err(error) => return (accepted, Some(error.kind())),
            Ok(Answer::More(bytes)) => {
                assert!(bytes > end - start, "the reader asks for what it has");
                needed = bytes;
            }
            Ok(Answer::Whole { head, body }) => {
                let at = start + body.start;
                accepted.push(Accepted {
                    status: head.status,
                    head: start..at,
                    body: wire[at..start + body.end].to_vec(),
                    announced: head.length(),
                });
                (start, needed) = (start + body.end, 1);
            }
            Ok(Answer::Begun { mut head, body }) => {
                let (status, announced, at) = (head.status, head.length(), start + body);
                let from = start;
                start = at;
                match streamed(&mut head.framing, wire, &mut start, &mut end, piece.max(1)) {
                    Ok(Some(body)) => accepted.push(Accepted { status, head: from..at, body, announced }),
                    Ok(None) => return (accepted, None),
                    Err(kind) => return (accepted, Some(kind)),
                }
                needed = 1;
            }
        }
    }
    (accepted, None)
}

fn streamed(
    framing: &mut Framing,
    wire: &[u8],
    start: &mut usize,
    end: &mut usize,
    piece: usize,
) -> Result<Option<Vec<u8>>, Kind> {
    let mut body = Vec::new();
    loop {
        match framing.step(&wire[*start..*end]).map_err(|error| error.kind())? {
            Step::Piece { skip, take } => {
                body.extend_from_slice(&wire[*start + skip..*start + skip + take]);
                *start += skip + take;
            }
            Step::End { skip } => {
                *start += skip;
                return Ok(Some(body));
            }
            Step::More if *end == wire.len() => return Ok(None),
            Step::More => *end = (*end + piece).min(wire.len()),
        }
    }
}

/// Reads `wire` every way and checks what must hold for any bytes at all.
///
/// # Panics
/// When a promise of the reader is broken.
pub fn check_answers(wire: &[u8]) {
    for ids in [true, false] {
        for requests in [1, 3] {
            let (whole, _) = read_answers(wire, wire.len(), requests, ids);
            for (number, answer) in whole.iter().enumerate() {
                check_one(wire, answer, number, ids);
            }
            for piece in [1, 7] {
                // What follows an object may be seen only after it was accepted: then one more is, never another.
                let (pieces, _) = read_answers(wire, piece, requests, ids);
                assert!(pieces.len() >= whole.len() && pieces.len() <= whole.len() + 1, "cut in pieces of {piece}");
                assert_eq!(pieces[..whole.len()], whole[..], "cut in pieces of {piece}");
            }
        }
    }
}

fn check_one(wire: &[u8], answer: &Accepted, number: usize, ids: bool) {
    let head = String::from_utf8_lossy(&wire[answer.head.clone()]).to_ascii_lowercase();
    assert!(head.contains("http/1."), "an answer without a status line");
    if ids {
        let id = format!("id-{number}");
        let echoes = |line: &str| {
            line.split_once(':').is_some_and(|(name, value)| name == "shoal-request-id" && value.trim() == id)
        };
        assert!(head.split('\n').any(echoes), "accepted without its id");
    }
    if let Some(length) = answer.announced {
        assert_eq!(answer.body.len() as u64, length, "not as long as announced");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(id: usize, body: &str) -> String {
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nShoal-Request-Id: id-{id}\r\n\r\n{body}", body.len())
    }

    #[test]
    fn answers_are_read_one_behind_the_other_however_they_are_cut() {
        let wire = [answer(0, "first"), answer(1, ""), answer(2, "third")].concat();
        for piece in 1..wire.len() {
            let (accepted, end) = read_answers(wire.as_bytes(), piece, 3, true);
            let bodies: Vec<&[u8]> = accepted.iter().map(|answer| &answer.body[..]).collect();
            assert_eq!((bodies, end), (vec![&b"first"[..], b"", b"third"], None));
        }
        check_answers(wire.as_bytes());
    }

    #[test]
    fn an_answer_out_of_order_is_never_accepted() {
        let wire = [answer(0, "a"), answer(2, "c"), answer(1, "b")].concat();
        let (accepted, end) = read_answers(wire.as_bytes(), wire.len(), 3, true);
        assert_eq!((accepted.len(), end), (1, Some(Kind::Integrity)));
    }

    #[test]
    fn a_body_longer_than_it_says_is_an_error_and_what_it_forges_is_not_accepted() {
        let longer = answer(0, "abc").replace("Content-Length: 3", "Content-Length: 2");
        let (accepted, end) = read_answers([longer, answer(1, "x")].concat().as_bytes(), 4096, 2, true);
        assert_eq!((accepted.len(), end), (0, Some(Kind::ShortBody)));
        let forged = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nShoal-Request-Id: id-?\r\n\r\nevil";
        let wire = [answer(0, ""), forged.to_owned(), answer(1, "good")].concat();
        let (accepted, end) = read_answers(wire.as_bytes(), 4096, 2, true);
        assert_eq!((accepted.len(), end), (1, Some(Kind::Integrity)));
    }
}
