//! The ids of requests (`Shoal-Request-Id`). A service that can be pipelined echoes them. They tell which request an
//! answer is for, because HTTP/1.1 does not number answers.
//!
//! An id is 128 random bits of its connection and a counter. So a body that is longer than announced cannot forge the
//! next answer, and the answer of another connection is not mistaken for one of this connection.

use shoal_core::error::{Error, Kind, Result};

/// The name of the header field, in requests and answers.
pub(crate) const FIELD: &str = "Shoal-Request-Id";
/// Longest id, in bytes: 32 hexadecimal digits, a dash, and a counter of at most 20 digits.
const LONGEST: usize = 53;

/// The part that all ids of a connection share, in bytes.
const RANDOM: usize = 33;

/// The ids of one connection.
pub(crate) struct RequestIds {
    id: [u8; LONGEST],
}

impl RequestIds {
    /// # Errors
    /// [`Kind::Internal`] if the system returns no random numbers.
    pub fn new() -> Result<RequestIds> {
        let mut random = [0u8; 16];
        let mut filled = 0;
        while filled < random.len() {
            match rustix::rand::getrandom(&mut random[filled..], rustix::rand::GetRandomFlags::empty()) {
                Ok(count) => filled += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => {
                    let why = format!("the operating system returns no random numbers: {errno}");
                    return Err(Error::new(Kind::Internal, why).errno(Some(errno.raw_os_error())));
                }
            }
        }
        let mut id = [b'-'; LONGEST];
        for (at, byte) in random.into_iter().enumerate() {
            id[2 * at] = b"0123456789abcdef"[usize::from(byte >> 4)];
            id[2 * at + 1] = b"0123456789abcdef"[usize::from(byte & 15)];
        }
        Ok(RequestIds { id })
    }

    /// The id of the `number`-th request.
    pub fn get(&mut self, number: u64) -> &[u8] {
        let mut digits = [0; 20];
        let (mut at, mut left) = (digits.len(), number);
        loop {
            at -= 1;
            digits[at] = b'0' + (left % 10) as u8;
            left /= 10;
            if left == 0 {
                break;
            }
        }
        let length = digits.len() - at;
        self.id[RANDOM..RANDOM + length].copy_from_slice(&digits[at..]);
        &self.id[..RANDOM + length]
    }
}

/// Whether this is the id of another request of the same connection. Caches do not replay these.
pub(crate) fn is_of_another(value: &[u8], id: &[u8]) -> bool {
    id.len() > RANDOM && value != id && value.starts_with(&id[..RANDOM])
}

/// Whether an answer echoes the id of its request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Echo {
    /// It has no id.
    #[default]
    Missing,
    /// It has the id that was sent.
    Right,
    /// It has another id, or several.
    Wrong,
    /// It has the id of another request of this connection.
    Another,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_of_their_connection_and_never_the_same_twice() {
        let (mut one, mut other) = (RequestIds::new().unwrap(), RequestIds::new().unwrap());
        let first = one.get(0).to_vec();
        assert_eq!(first.len(), 34);
        assert!(first.ends_with(b"-0"));
        assert_ne!(one.get(9).to_vec(), one.get(10).to_vec());
        assert_eq!(one.get(u64::MAX).len(), LONGEST);
        assert_eq!(one.get(0), first);
        assert_ne!(&other.get(0)[..32], &first[..32]);
    }
}
