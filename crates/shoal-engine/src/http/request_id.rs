//! The ids that requests carry (`Shoal-Request-Id`) and that a service which can be pipelined sends back. They are what
//! tells whose answer an answer is: HTTP/1.1 itself gives answers no number.
//!
//! An id is 128 random bits of its connection and a counter, so that a body which is longer than it says cannot forge the
//! answer behind it, and an answer of another connection is not taken for one of this.

use crate::error::{Error, Kind, Result};

/// The name of the field, in requests and answers.
pub(crate) const FIELD: &str = "Shoal-Request-Id";
/// 32 digits, a dash, and a counter of at most 20.
const LONGEST: usize = 53;

/// The part of an id that all of a connection have.
const RANDOM: usize = 33;

/// The ids of one connection.
pub(super) struct RequestIds {
    id: [u8; LONGEST],
}

impl RequestIds {
    /// # Errors
    /// [`Kind::Internal`] where the system has no random numbers.
    pub fn new() -> Result<RequestIds> {
        let mut random = [0u8; 16];
        let mut filled = 0;
        while filled < random.len() {
            match rustix::rand::getrandom(&mut random[filled..], rustix::rand::GetRandomFlags::empty()) {
                Ok(count) => filled += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => {
                    return Err(Error::new(
                        Kind::Internal,
                        format!(
                            "the operating system returns no random numbers: \
                    {errno}"
                        ),
                    )
                    .errno(Some(errno.raw_os_error())));
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
        self.id[33..33 + length].copy_from_slice(&digits[at..]);
        &self.id[..33 + length]
    }
}

/// Whether an answer has the id of another request of the same connection. No cache replays that.
pub(super) fn is_of_another(value: &[u8], id: &[u8]) -> bool {
    id.len() > RANDOM && value != id && value.starts_with(&id[..RANDOM])
}

/// What an answer says of the request it is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Echo {
    /// Nothing.
    #[default]
    Missing,
    /// The very id that was sent.
    Right,
    /// Another one, or several.
    Wrong,
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
