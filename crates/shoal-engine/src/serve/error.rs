//! Why the service could not start. One line each: what was attempted, on what, why, what to do next.
//!
//! Not here: what a client is told about one request; those texts stand where the answer is made (`answer.rs`, `dir.rs`, `list.rs`).

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The service could not be started.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServeError {
    /// An option has a value that cannot work; the text says which, why and what would.
    Option(String),
    /// The directory to serve cannot be opened.
    Directory {
        /// The directory as it was given.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// The address cannot be listened on.
    Bind {
        /// The address that was asked for.
        address: SocketAddr,
        /// What the system said.
        cause: io::Error,
    },
    /// The access log cannot be opened.
    AccessLog {
        /// The file as it was given.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// A thread or its event queue cannot be made.
    Thread(io::Error),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Option(text) => f.write_str(text),
            Self::Directory { path, cause } => {
                write!(f, "cannot serve the directory {path:?}: {}: ", reason(cause))?;
                f.write_str(match cause.raw_os_error() {
                    Some(libc::ENOENT) => "give a directory that exists",
                    Some(libc::ENOTDIR) => "give the directory that holds the file",
                    Some(libc::EACCES) => "give a directory that this user may read and enter",
                    Some(libc::ENOSYS) => "the service needs openat2, which Linux has since 5.6",
                    _ => "check that `ls` can list the directory",
                })
            }
            Self::Bind { address, cause } => {
                write!(f, "cannot listen on {address}: {}: ", reason(cause))?;
                f.write_str(match cause.kind() {
                    io::ErrorKind::AddrInUse => {
                        "another program is listening there; choose another port, or port 0 for any free one"
                    }
                    io::ErrorKind::AddrNotAvailable => {
                        "give an address of this machine, 127.0.0.1 for this machine alone"
                    }
                    io::ErrorKind::PermissionDenied => "ports below 1024 need a privilege; choose a higher one",
                    _ => "choose another address or port",
                })
            }
            Self::AccessLog { path, cause } => write!(
                f,
                "cannot open the access log {path:?}: {}: give a file in a directory that exists and may be written",
                reason(cause)
            ),
            Self::Thread(cause) => write!(
                f,
                "cannot start the threads of the service: {}: raise the limit of processes or open files (`ulimit \
                -u`, `ulimit -n`)",
                reason(cause)
            ),
        }
    }
}

impl std::error::Error for ServeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Option(_) => None,
            Self::Directory { cause, .. } | Self::Bind { cause, .. } => Some(cause),
            Self::AccessLog { cause, .. } | Self::Thread(cause) => Some(cause),
        }
    }
}

/// The system's words, in lower case and without the error number.
fn reason(cause: &io::Error) -> String {
    let mut text = cause.to_string();
    if let Some(at) = text.find(" (os error") {
        text.truncate(at);
    }
    text.to_lowercase()
}
