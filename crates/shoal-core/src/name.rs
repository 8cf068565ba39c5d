//! `Name`: a validated relative path, the only thing a sink accepts as a name.
//!
//! Here: the one constructor, [`Name::parse`]. Not here: I/O, encoding, renaming; an unsafe
//! name is refused with the reason, never repaired. Text for people: [`crate::display`].

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::display::escape;
use crate::error::{Error, Kind};

/// Longest component most Linux file systems store, in bytes (`NAME_MAX`).
const COMPONENT_MAX: usize = 255;
/// Longest path one system call takes, in bytes (`PATH_MAX` less the terminating NUL).
const NAME_MAX: usize = 4095;
/// The directory in a destination that belongs to shoal itself, in any case: for journals and temporary files.
pub const SHOAL_DIR: &str = ".shoal";
/// In [`SHOAL_DIR`], if a destination is written in parts: a directory for each part, named by its number.
pub const PARTS_DIR: &str = "parts";
/// In [`PARTS_DIR`]: what all parts of the job have in common.
pub const JOB: &str = "job";

/// Whether a component is that of shoal's own directory.
pub fn is_shoal_dir(component: &[u8]) -> bool {
    component.eq_ignore_ascii_case(SHOAL_DIR.as_bytes())
}

/// A relative path that stays below whatever it is joined to.
///
/// Invariants, checked once by [`Name::parse`] and impossible to break afterwards:
/// - not empty, at most 4,095 bytes, no NUL
/// - no component is empty, `.` or `..`, or longer than 255 bytes (so: no leading, trailing or double `/`)
/// - the first component is not `.shoal` in any case
///
/// Names are bytes: neither UTF-8 nor any normal form is required, and a backslash is an ordinary character.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Box<[u8]>);

impl Name {
    /// Validates `raw`; never changes it.
    ///
    /// ```
    /// use shoal_core::Name;
    /// assert_eq!(Name::parse(b"photos/1.jpg").unwrap().as_bytes(), b"photos/1.jpg");
    /// assert!(Name::parse(b"../etc/passwd").is_err());
    /// ```
    ///
    /// # Errors
    /// [`Kind::UnsafeName`] with the reason.
    pub fn parse(raw: &[u8]) -> Result<Name, Error> {
        match refusal(raw) {
            None => Ok(Name(raw.into())),
            Some(why) => Err(Error::new(Kind::UnsafeName, format!("unsafe name: {why}")).on(&escape(raw))),
        }
    }

    /// The bytes exactly as they were parsed.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The name as a relative path.
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// The directory part, if any, and the last component.
    pub fn split(&self) -> (Option<&[u8]>, &[u8]) {
        match memchr::memrchr(b'/', &self.0) {
            Some(at) => (Some(&self.0[..at]), &self.0[at + 1..]),
            None => (None, &self.0),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escape(&self.0))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name({})", escape(&self.0))
    }
}

fn refusal(raw: &[u8]) -> Option<&'static str> {
    if raw.is_empty() {
        return Some("it is empty");
    }
    if raw.len() > NAME_MAX {
        return Some("it is longer than 4,095 bytes");
    }
    if memchr::memchr(0, raw).is_some() {
        return Some("it contains a NUL byte");
    }
    for (at, component) in raw.split(|&byte| byte == b'/').enumerate() {
        match component {
            b"" if at == 0 => return Some("it is absolute"),
            b"" => return Some("it has an empty component"),
            b"." => return Some("it has a component \".\""),
            b".." => return Some("it has a component \"..\""),
            _ if component.len() > COMPONENT_MAX => {
                return Some("a component is longer than 255 bytes");
            }
            _ if at == 0 && is_shoal_dir(component) => {
                return Some("\".shoal\" is reserved for the journal");
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::names::{LEGAL, UNSAFE};

    #[test]
    fn unsafe_names_are_refused() {
        for raw in UNSAFE() {
            let error = Name::parse(&raw).expect_err(&escape(&raw));
            assert_eq!(error.kind(), Kind::UnsafeName);
        }
    }

    #[test]
    fn odd_but_legal_names_are_kept_byte_for_byte() {
        for raw in LEGAL() {
            assert_eq!(Name::parse(&raw).unwrap().as_bytes(), raw);
        }
    }

    #[test]
    fn an_accepted_name_never_leaves_its_root() {
        // Every short string over the dangerous alphabet: what parse accepts must join to something below the root.
        let alphabet = [b'.', b'/', b'a', 0];
        for length in 0..6u32 {
            for mut code in 0..4usize.pow(length) {
                let raw: Vec<u8> = (0..length)
                    .map(|_| {
                        let byte = alphabet[code % 4];
                        code /= 4;
                        byte
                    })
                    .collect();
                if let Ok(name) = Name::parse(&raw) {
                    let ordinary = |c| matches!(c, std::path::Component::Normal(_));
                    assert!(name.as_path().components().all(ordinary), "{name}");
                    assert_eq!(name.as_path().components().count(), raw.split(|&b| b == b'/').count());
                }
            }
        }
    }
}
