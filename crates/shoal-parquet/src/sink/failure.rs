//! From errors of files and of the Parquet library to the engine's.

use std::error::Error as _;
use std::io;
use std::path::Path;

use parquet::errors::ParquetError;
use rustix::io::Errno;
use shoal_engine::display::escape;
use shoal_engine::{Error, Kind};

/// An error of the destination, which ends the run.
pub(super) fn io_failed(what: &str, path: &Path, error: &io::Error) -> Error {
    let errno = error.raw_os_error();
    let (kind, hint) = match errno.map(Errno::from_raw_os_error) {
        Some(Errno::NOSPC | Errno::DQUOT) => {
            (Kind::DestinationFull, Some("free some space, then run the same command again: it continues"))
        }
        Some(Errno::ROFS) => (Kind::DestinationReadOnly, Some("check the kernel log (dmesg)")),
        Some(Errno::IO) => {
            (Kind::DestinationFailed, Some("check the kernel log (dmesg), then run the same command again"))
        }
        _ => (Kind::DestinationFailed, None),
    };
    let shown = escape(std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()));
    let failed = Error::new(kind, format!("cannot {what} \"{shown}\": {error}")).errno(errno);
    match hint {
        Some(hint) => failed.hint(hint),
        None => failed,
    }
}

/// The same for what the Parquet library returned, which may be an error of the file.
pub(super) fn parquet_failed(what: &str, path: &Path, error: &ParquetError) -> Error {
    let cause = match error {
        ParquetError::External(cause) => cause.downcast_ref::<io::Error>(),
        other => other.source().and_then(|cause| cause.downcast_ref::<io::Error>()),
    };
    match cause {
        Some(cause) => io_failed(what, path, cause),
        None => {
            let shown = escape(std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()));
            Error::new(Kind::DestinationFailed, format!("cannot {what} \"{shown}\": {error}"))
        }
    }
}
