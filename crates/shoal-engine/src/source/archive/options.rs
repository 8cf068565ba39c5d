//! The options of the archive source.

/// How archives are read, and their limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveOptions {
    /// Put the entries of `x.zip` below `x/`, or below `x.zip/` if there is an `x.tar` as well.
    pub into_subdirectories: bool,
    /// Encoding of entry names that are not marked as UTF-8.
    pub encoding: Encoding,
    /// How to treat a backslash in a name.
    pub backslashes: Backslashes,
    /// Most bytes that one archive may unpack to.
    pub max_size: Option<u64>,
    /// Most bytes that an archive may unpack to, for each byte of its own. Checked only above 64 MiB of unpacked bytes.
    pub max_ratio: u64,
    /// Most entries of one archive.
    pub max_entries: u64,
    /// Most components of a name.
    pub max_depth: u32,
    /// Read archives whose entries overlap.
    pub allow_overlap: bool,
}

impl Default for ArchiveOptions {
    fn default() -> ArchiveOptions {
        ArchiveOptions {
            into_subdirectories: false,
            encoding: Encoding::Auto,
            backslashes: Backslashes::Refuse,
            max_size: None,
            max_ratio: 100, // sorted text reaches 20, deflate at most 1,032
            max_entries: 1_000_000,
            max_depth: 100,
            allow_overlap: false,
        }
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

/// How to treat a backslash in a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backslashes {
    /// Refuse the entry.
    #[default]
    Refuse,
    /// Treat it as a separator, like `/`.
    Separator,
}

impl Backslashes {
    /// The value of the option.
    pub fn as_str(self) -> &'static str {
        match self {
            Backslashes::Refuse => "refuse",
            Backslashes::Separator => "separator",
        }
    }
}
