//! `ObjectKey`: what the engine calls an object by, from the listing to the sink. A sink says before the fetch which keys it
//! takes (`Sink::admit`). Not here: names of files (`name.rs`).

use std::fmt;

use crate::display::escape;
use crate::error::{Error, Kind, Result};
use crate::name::Name;

/// Longest key, in bytes: as long as a path may be, and longer than object stores allow (1,024).
const KEY_MAX: usize = 4095;

/// A key of an object: a [`Name`], or any bytes, for a sink whose objects are not files.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectKey(Kept);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Kept {
    Name(Name),
    Bytes(Box<[u8]>),
}

impl ObjectKey {
    /// Takes any bytes, 1 to 4,095 of them.
    ///
    /// # Errors
    /// [`Kind::UnsafeName`] with the reason.
    pub fn of_bytes(raw: &[u8]) -> Result<ObjectKey> {
        let why = match raw.len() {
            0 => "it is empty",
            1..=KEY_MAX => return Ok(ObjectKey(Kept::Bytes(raw.into()))),
            _ => "it is longer than 4,095 bytes",
        };
        Err(Error::new(Kind::UnsafeName, format!("unsafe name: {why}")).on(&escape(raw)))
    }

    /// The bytes exactly as they were listed.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Kept::Name(name) => name.as_bytes(),
            Kept::Bytes(bytes) => bytes,
        }
    }

    /// The key as a name, the only thing that reaches a file system.
    ///
    /// # Errors
    /// [`Kind::Internal`] if the sink has admitted a key that is not a name.
    pub fn name(&self) -> Result<&Name> {
        match &self.0 {
            Kept::Name(name) => Ok(name),
            Kept::Bytes(bytes) => {
                Err(Error::new(Kind::Internal, "a key that is not a name came to a sink of files").on(&escape(bytes)))
            }
        }
    }
}

impl From<Name> for ObjectKey {
    fn from(name: Name) -> ObjectKey {
        ObjectKey(Kept::Name(name))
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escape(self.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_not_empty_and_bounded_and_says_whether_it_is_a_name() {
        assert!(ObjectKey::of_bytes(b"").is_err() && ObjectKey::of_bytes(&[b'x'; 4096]).is_err());
        let key = ObjectKey::of_bytes(b"../a//b\0").unwrap();
        assert_eq!((key.as_bytes(), key.to_string().as_str()), (&b"../a//b\0"[..], "../a//b\\x00"));
        assert_eq!(key.name().unwrap_err().kind(), Kind::Internal);
        let name = ObjectKey::from(Name::parse(b"a/b").unwrap());
        assert_eq!(name.name().unwrap().as_bytes(), b"a/b");
    }
}
