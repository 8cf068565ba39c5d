//! Whether an interrupted large body can be resumed, and whether the answer to that belongs to it. Pure: the requests
//! are sent in `stream_body.rs`.
//!
//! Two parts are joined only if a strong validator (RFC 9110, 8.8.1) shows that they are of the same bytes: an entity
//! tag that is not weak, or a `Last-Modified` that was long past when the first answer was sent.

use std::time::Duration;

use crate::body::Framing;
use crate::head::Head;
use crate::version::Validator;
use shoal_core::display::escape;
use shoal_core::error::{Error, Kind, Result};

/// How long to wait before each resumption, at most three: a service that has closed a connection may be busy.
const PAUSES: [Duration; 3] = [Duration::ZERO, Duration::from_millis(500), Duration::from_secs(2)];

/// What the answer to a request for the rest is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ResumedAnswer {
    /// The rest of the object.
    Rest,
    /// Not a part: the whole object, or an error.
    Whole,
    /// The object has changed, and must be requested from the start.
    Changed,
}

/// How one object is resumed.
pub(crate) struct Resume {
    validator: Validator,
    length: u64,
    /// Of a body that is kept as it was sent.
    encoding: Option<String>,
    tries: usize,
}

impl Resume {
    /// For the object with this first answer; `None` if nothing would show that a part belongs to it.
    pub fn of(head: &Head) -> Option<Resume> {
        let (Framing::Length(length), 200, Some(version)) = (&head.framing, head.status, &head.version) else {
            return None;
        };
        // Parts of an encoded body cannot be joined: some services count encoded bytes, some the bytes of the object.
        if head.to_decode().is_some() {
            return None;
        }
        let encoding = head.sent_encoding().map(String::from);
        Some(Resume { validator: version.validator()?, length: *length, encoding, tries: 0 })
    }

    /// How long to wait before the rest is requested; `None` to give up.
    pub fn pause(&mut self, error: &Error) -> Option<Duration> {
        let helps = matches!(error.kind(), Kind::Disconnected | Kind::ShortBody | Kind::Timeout | Kind::Connect);
        let pause = PAUSES.get(self.tries).copied().filter(|_| helps);
        self.tries += 1;
        pause
    }

    /// For the next version of an object that was resumed before.
    pub fn after(self, earlier: &Resume) -> Resume {
        Resume { tries: earlier.tries, ..self }
    }

    /// Header lines that request everything after the first `received` bytes, or the whole object if it has changed.
    pub fn fields(&self, received: u64) -> Vec<u8> {
        let (Validator::Tag(validator) | Validator::Date(validator)) = &self.validator;
        match received {
            0 => Vec::new(),
            _ => [format!("Range: bytes={received}-\r\nIf-Range: ").as_bytes(), validator, b"\r\n"].concat(),
        }
    }

    /// What the answer to that is.
    ///
    /// # Errors
    /// [`Kind::Protocol`] for another part than the requested one.
    pub fn judge(&self, received: u64, head: &Head) -> Result<ResumedAnswer> {
        match head.status {
            206 if received > 0 => self.check_part(received, head).map(|()| ResumedAnswer::Rest),
            // 412 or 416 to a range request: the object has changed or is shorter.
            412 | 416 if received > 0 => Ok(ResumedAnswer::Changed),
            _ => Ok(ResumedAnswer::Whole),
        }
    }

    fn check_part(&self, received: u64, head: &Head) -> Result<()> {
        let wrong = |why: String| Err(Error::new(Kind::Protocol, why));
        let Some(version) = &head.version else {
            return wrong("a partial answer without a valid Content-Range".to_owned());
        };
        let range = || escape(version.range.as_deref().unwrap_or_default());
        if version.part() != Some((received, self.length - 1, self.length)) {
            let wanted = format!("bytes {received}-{}/{}", self.length - 1, self.length);
            return wrong(format!("the server sent another range than requested: \"{}\", not \"{wanted}\"", range()));
        }
        if !version.has(&self.validator) {
            return wrong("the partial answer is from another version of the object".to_owned());
        }
        if head.sent_encoding() != self.encoding.as_deref() {
            return wrong("the partial answer has another Content-Encoding than the first part".to_owned());
        }
        match head.framing {
            Framing::Length(length) if length != self.length - received => {
                wrong(format!("a part of {} bytes came in {length}", self.length - received))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATES: &str = "Date: Sun, 06 Nov 1994 08:50:37 GMT\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n";

    fn head(status: u16, length: u64, fields: &str) -> Head {
        let wire = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n{fields}\r\n");
        crate::head::parse(wire.as_bytes(), &crate::head::Wants::default(), b"").unwrap().unwrap().0
    }

    fn first(fields: &str) -> Option<Resume> {
        Resume::of(&head(200, 100_000, fields))
    }

    #[test]
    fn only_a_strong_validator_lets_an_object_be_resumed() {
        let asked = |fields: &str| first(fields).map(|resume| String::from_utf8(resume.fields(7)).unwrap());
        assert_eq!(asked("ETag: \"a\"\r\n").as_deref(), Some("Range: bytes=7-\r\nIf-Range: \"a\"\r\n"));
        let dated = "Range: bytes=7-\r\nIf-Range: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
        assert_eq!(asked(DATES).as_deref(), Some(dated));
        for weak in [
            "",
            "ETag: W/\"a\"\r\n",
            "ETag: a\r\n",
            "ETag: \"\r\n",
            "ETag: \"a\"\r\nETag: \"b\"\r\n",
            "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
            "Date: Sun, 06 Nov 1994 08:50:36 GMT\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
            "Date: Sun, 06 Nov 1994 08:49:00 GMT\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
            "Date: now\r\nLast-Modified: then\r\n",
        ] {
            assert_eq!(asked(weak), None, "{weak}");
        }
        assert_eq!(asked(&format!("ETag: W/\"a\"\r\n{DATES}")), None, "the tag says that bytes may differ");
        assert_eq!(first("ETag: \"a\"\r\n").unwrap().fields(0), b"", "nothing to resume");
    }

    #[test]
    fn only_the_part_that_was_asked_for_is_taken() {
        let resume = first("ETag: \"a\"\r\n").unwrap();
        let judge = |status, length, fields: &str| resume.judge(7, &head(status, length, fields)).map_err(|e| e.kind());
        assert_eq!(
            judge(206, 99_993, "ETag: \"a\"\r\nContent-Range: bytes 7-99999/100000\r\n"),
            Ok(ResumedAnswer::Rest)
        );
        for (length, fields) in [
            (99_993, "ETag: \"b\"\r\nContent-Range: bytes 7-99999/100000\r\n"),
            (99_993, "ETag: W/\"a\"\r\nContent-Range: bytes 7-99999/100000\r\n"),
            (99_993, "Content-Range: bytes 7-99999/100000\r\n"),
            (99_993, "ETag: \"a\"\r\n"),
            (99_993, "ETag: \"a\"\r\nContent-Range: bytes 7-99999/*\r\n"),
            (99_993, "ETag: \"a\"\r\nContent-Range: bytes 7-99999/100001\r\n"),
            (99_993, "ETag: \"a\"\r\nContent-Range: bytes 8-99999/100000\r\n"),
            (99_993, "ETag: \"a\"\r\nContent-Range: bytes 6-99999/100000\r\n"),
            (99_993, "ETag: \"a\"\r\nContent-Range: bytes 7-99998/100000\r\n"),
            (99_993, "ETag: \"a\"\r\nContent-Range: bytes +7-99999/100000\r\n"),
            (99_993, "ETag: \"a\"\r\nContent-Range: 7-99999/100000\r\n"),
            (99_992, "ETag: \"a\"\r\nContent-Range: bytes 7-99999/100000\r\n"),
            (99_993, "ETag: \"a\"\r\nContent-Encoding: gzip\r\nContent-Range: bytes 7-99999/100000\r\n"),
            (99_993, "ETag: \"a\"\r\nContent-Range: bytes 7-99999/100000\r\nContent-Range: bytes 8-99999/100000\r\n"),
        ] {
            assert_eq!(judge(206, length, fields), Err(Kind::Protocol), "{fields}");
        }
        assert_eq!(judge(200, 5, ""), Ok(ResumedAnswer::Whole));
        assert_eq!(judge(503, 5, ""), Ok(ResumedAnswer::Whole));
        assert_eq!(judge(412, 5, ""), Ok(ResumedAnswer::Changed));
        assert_eq!(judge(416, 5, "Content-Range: bytes */7\r\n"), Ok(ResumedAnswer::Changed));
    }

    #[test]
    fn an_object_is_resumed_three_times_and_not_after_every_failure() {
        let mut resume = first(DATES).unwrap();
        let error = |kind| Error::new(kind, "");
        assert_eq!(first(DATES).unwrap().pause(&error(Kind::DestinationFull)), None);
        assert_eq!(first(DATES).unwrap().pause(&error(Kind::Protocol)), None);
        for _ in 0..3 {
            assert!(resume.pause(&error(Kind::ShortBody)).is_some());
        }
        assert_eq!(resume.pause(&error(Kind::ShortBody)), None);
    }
}
