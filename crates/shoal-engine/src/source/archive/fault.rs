//! The messages for entries that fail before anything is unpacked.

use super::format::Archive;
use super::member::{Fault, NoFile};
use crate::error::{Error, Kind};

/// Returns the error of an entry that has failed in the plan.
pub(super) fn failure(fault: Fault, archive: &Archive, number: u32) -> Error {
    match fault {
        Fault::Duplicate => {
            Error::new(Kind::Repeated, "an earlier entry of the archive has this name; the first one stays")
        }
        Fault::Conflict => Error::new(
            Kind::NameConflict,
            "an earlier entry is a file where this one needs a directory, or the reverse",
        ),
        Fault::Encrypted => Error::new(Kind::Unsupported, "the entry is encrypted, which shoal does not support"),
        Fault::Method => {
            let method = archive.plan.members[number as usize].method;
            let name = method_name(method).map_or_else(String::new, |name| format!(" ({name})"));
            let why = format!("compressed with method {method}{name}, which shoal does not support");
            Error::new(Kind::Unsupported, why)
        }
        Fault::Sparse => Error::new(Kind::Unsupported, "a sparse file, which shoal does not support"),
        Fault::HardLink(to) => Error::new(
            Kind::Unsupported,
            match to {
                NoFile::Outside => "a hard link to a path outside the archive",
                NoFile::Missing => "a hard link to a name that is not an earlier entry",
                NoFile::Other => "a hard link to an entry that is not a file, or that has failed",
            },
        ),
        Fault::Backslash => {
            Error::new(Kind::UnsafeName, "its name has a backslash (`backslashes=\"separator\"` reads it as a slash)")
        }
        Fault::TooDeep => {
            let why = "its name has more directories than allowed (`max_depth` raises the limit)";
            Error::new(Kind::Archive, why)
        }
        Fault::Damaged(reason) => {
            let why = archive.plan.reasons.get(usize::from(reason)).map_or("the archive is damaged here", |why| why);
            Error::new(Kind::Archive, why)
        }
    }
}

/// The name of a zip compression method that is not supported.
fn method_name(method: u16) -> Option<&'static str> {
    Some(match method {
        1 => "shrink",
        2..=5 => "reduce",
        6 => "implode",
        10 => "pkware implode",
        16 => "z/OS cmpsc",
        18 => "terse",
        19 => "lz77",
        20 => "zstd, by its old number",
        94 => "mp3",
        96 => "jpeg",
        97 => "wavpack",
        98 => "ppmd",
        99 => "aes",
        _ => return None,
    })
}
