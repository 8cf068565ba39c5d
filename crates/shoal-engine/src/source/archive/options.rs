//! The options of the archive source.

use crate::error::Result;
use crate::option::group::ARCHIVES;
use crate::option::{Opt, Setting, Type, Value};

crate::options! {
    /// How archives are read, and their limits.
    pub struct ArchiveOptions {
        /// Put the entries of `photos.zip` below `photos/`, or below `photos.zip/` if there is a `photos.tar` as well. By
        /// default all archives share one directory, and a name that a second archive has too is a failure.
        into_subdirectories: bool = false, "Unpack NAME.zip into NAME/, instead of all into DST.", binds: true,
            group: ARCHIVES;
        /// Encoding of entry names that are not marked as UTF-8: `"auto"`, or the name of an encoding such as
        /// `"shift_jis"` or `"windows-1251"`.
        encoding: Encoding = Encoding::Auto, "Encoding of names not marked as UTF-8.", metavar: Some("NAME"), binds: true,
            group: ARCHIVES;
        /// What to do with a backslash in a name: `"refuse"` makes the entry a failure, `"separator"` reads it as `/`.
        backslashes: Backslashes = Backslashes::Refuse, "Reject \\ in a name, or read it as /.", binds: true,
            group: ARCHIVES;
        /// Maximum bytes that one archive may unpack to: a number, or text such as `"20GB"`.
        max_size: Option<u64> = None, "Reject archives that unpack to more bytes.", takes: Type::Size,
            metavar: Some("SIZE"), group: ARCHIVES;
        /// How many times its own size an archive may unpack to; checked only beyond 64 MiB.
        max_ratio: u64 = 100, "Reject archives that grow more than this.", // sorted text reaches 20, deflate at most 1,032
            metavar: Some("N"), group: ARCHIVES;
        /// Maximum number of entries in one archive.
        max_entries: u64 = 1_000_000, "Reject archives with more entries.", metavar: Some("N"), group: ARCHIVES;
        /// Maximum number of parts in the name of an entry; the file's own name is one.
        max_depth: u32 = 100, "Reject entries with more parts in their names.", metavar: Some("N"), group: ARCHIVES;
        /// Accept archives in which entries share bytes. Only zip bombs and a few faulty programs make them.
        allow_overlap: bool = false, "Accept entries that share bytes, as in zip bombs.", group: ARCHIVES;
    }
}

/// Encoding of entry names that are not marked as UTF-8.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// In a zip: UTF-8 if the name is valid UTF-8 and was created on Unix, else code page 437. In a tar: the bytes
    /// unchanged.
    #[default]
    Auto,
    /// This encoding, by its label (`shift_jis`, `windows-1251`).
    Label(String),
}

impl Setting for Encoding {
    const TAKES: Type = Type::Text;

    fn take(given: &Value, option: &Opt, named: &str) -> Result<Encoding> {
        let label = String::take(given, option, named)?;
        Ok(if label == "auto" { Encoding::Auto } else { Encoding::Label(label) })
    }

    fn given(&self) -> Value {
        match self {
            Encoding::Auto => Value::Text("auto".to_owned()),
            Encoding::Label(label) => Value::Text(label.to_ascii_lowercase()), // one encoding, one text
        }
    }
}

crate::words! {
    /// How to treat a backslash in a name.
    pub enum Backslashes {
        /// Refuse the entry.
        #[default]
        Refuse = "refuse",
        /// Treat it as a separator, like `/`.
        Separator = "separator",
    }
}
