//! Where the bytes go: the caller's file, counted, and what it said when it failed.
//!
//! Encoders own what they write to and put its errors into words of their own. The tally stays outside of them.

use std::io::{self, Seek, SeekFrom, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::Error;

/// What is known of an [`Output`] while an encoder owns it.
#[derive(Default)]
pub(super) struct Tally {
    bytes: AtomicU64,
    failure: Mutex<Option<Error>>,
}

impl Tally {
    /// Bytes written so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Why the first write failed, if one did.
    pub(super) fn failure(&self) -> Option<Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn noted<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if let Err(cause) = &result
            && cause.kind() != io::ErrorKind::Interrupted
        {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert_with(|| Error::writing(cause));
        }
        result
    }
}

/// The caller's file.
pub(super) struct Output<'a, W> {
    out: &'a mut W,
    tally: &'a Tally,
}

impl<'a, W> Output<'a, W> {
    pub(super) fn new(out: &'a mut W, tally: &'a Tally) -> Self {
        Self { out, tally }
    }
}

impl<W: Write> Write for Output<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = match self.out.write(bytes) {
            // As `write_all` would say, but noted.
            Ok(0) if !bytes.is_empty() => Err(io::ErrorKind::WriteZero.into()),
            result => result,
        };
        let written = self.tally.noted(result)?;
        self.tally.bytes.fetch_add(written as u64, Ordering::Relaxed);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.tally.noted(self.out.flush())
    }
}

impl<W: Write + Seek> Output<'_, W> {
    /// Writes over bytes that were written before, so many in front of the end, and goes back to the end.
    pub(super) fn overwrite(&mut self, from_end: u64, bytes: &[u8]) -> io::Result<()> {
        let back = i64::try_from(from_end).map_err(io::Error::other)?;
        let write = |out: &mut W| {
            out.seek(SeekFrom::Current(-back))?;
            out.write_all(bytes)?;
            out.seek(SeekFrom::Current(back - bytes.len() as i64))
        };
        self.tally.noted(write(self.out)).map(|_| ())
    }
}
