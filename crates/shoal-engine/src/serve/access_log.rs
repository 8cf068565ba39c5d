//! The access log: one line `METHOD TARGET STATUS BYTES` per request, the target as it was sent.
//!
//! Each thread gathers lines in its own buffer; whole lines go to the file in one append, when 64 KiB have gathered, at
//! each sweep (twice a second or more often) and at the end. A write that fails is tried again with the next one, up to
//! a bound, so that a full disk neither stops the service nor fills the memory: what is lost is counted.

use crate::poison::ignore_poison;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fmt::Write as _;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Bytes gathered before they are written without waiting for the sweep.
const WRITE_AT: usize = 64 * 1024;
/// Bytes kept while writing fails; beyond them lines are dropped and counted.
const KEEP_AT_MOST: usize = 1024 * 1024;

/// The open file, shared by all threads.
#[derive(Debug)]
pub(super) struct AccessLog {
    file: OwnedFd,
    lost: AtomicU64,
}

impl AccessLog {
    /// Opens for appending, so that a restarted service goes on in the same file.
    pub(super) fn open(path: &Path) -> Result<Self, Errno> {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::from_raw_mode(0o644))?;
        Ok(Self { file, lost: AtomicU64::new(0) })
    }

    /// Lines that could not be written.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// One thread's unwritten lines.
#[derive(Debug, Default)]
pub(super) struct LogBuffer(Mutex<String>);

impl LogBuffer {
    pub(super) fn line(&self, log: &AccessLog, method: &str, target: &str, status: u16, bytes: u64) {
        let mut text = self.lock();
        push_escaped(&mut text, method);
        text.push(' ');
        push_escaped(&mut text, target);
        // Writing to a String cannot fail.
        let _ = writeln!(text, " {status} {bytes}");
        if text.len() >= WRITE_AT {
            write_out(log, &mut text);
        }
    }

    pub(super) fn flush(&self, log: &AccessLog) {
        write_out(log, &mut self.lock());
    }

    /// The last flush: what cannot be written now is lost, and counted.
    pub(super) fn close(&self, log: &AccessLog) {
        let mut text = self.lock();
        write_out(log, &mut text);
        count_lost(log, &text);
        text.clear();
    }

    fn lock(&self) -> MutexGuard<'_, String> {
        ignore_poison(self.0.lock())
    }
}

/// Printable ASCII stands as it is, all else as `\xNN`: a name can neither forge a line nor steer a terminal.
fn push_escaped(out: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_graphic() && byte != b'\\' {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
}

fn write_out(log: &AccessLog, text: &mut String) {
    let mut done = 0;
    while done < text.len() {
        match rustix::io::write(&log.file, &text.as_bytes()[done..]) {
            Ok(0) => break,
            Ok(written) => done += written,
            Err(Errno::INTR) => {}
            Err(_) => break,
        }
    }
    // All text is ASCII, so any place is a character boundary.
    text.drain(..done);
    if text.len() > KEEP_AT_MOST {
        count_lost(log, text);
        text.clear();
    }
}

fn count_lost(log: &AccessLog, text: &str) {
    let lines = memchr::memchr_iter(b'\n', text.as_bytes()).count();
    log.lost.fetch_add(lines as u64, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::push_escaped;

    #[test]
    fn control_characters_and_backslashes_are_escaped() {
        let mut out = String::new();
        push_escaped(&mut out, "/get/a\n\x1b[31m\\é %0a");
        assert_eq!(out, "/get/a\\x0a\\x1b[31m\\x5c\\xc3\\xa9\\x20%0a");
    }
}
