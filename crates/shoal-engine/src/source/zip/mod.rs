//! Zip archives.
//!
//! `format.rs` is the format. To plan an archive, `end.rs` finds the directory, `directory.rs` reads it, and
//! `extents.rs` refuses entries that share bytes. `local.rs` compares the header of an entry with the directory.
//! `unpack.rs` unpacks entries: from the bytes in `window.rs`, small ones through `inflate.rs`. `fields.rs` has
//! numbers, flags and extra fields, `time.rs` the times. Not here: streams of other methods (`archive/decode.rs`),
//! limits, names and conflicts (`archive/`).
//!
//! The directory at the end counts. What contradicts it is refused: the whole archive if its structure is in doubt,
//! else the entry. Two readers must not see two different archives.

mod directory;
mod end;
mod extents;
mod fields;
mod format;
mod inflate;
mod local;
mod time;
mod unpack;
mod window;

pub(crate) use self::format::Zip;
