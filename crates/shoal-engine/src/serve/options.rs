//! What is served and how: the options of a service, and the check of them.

use super::error::ServeError;
use super::hosts;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

/// What is served.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Content {
    /// Every regular file below a directory; links are not followed, a `.shoal` at its top is left out.
    Directory(PathBuf),
    /// Objects that exist by rule: names `object-000000000` …, each holding its name and a line feed, repeated and cut
    /// to `size` bytes.
    Synthetic {
        /// How many objects.
        count: u64,
        /// Bytes of each.
        size: u64,
    },
    /// The same names, with bytes that do not compress: SplitMix64's, the same on every machine.
    SyntheticRandom {
        /// How many objects.
        count: u64,
        /// Bytes of each.
        size: u64,
    },
}

impl Content {
    /// Reads `COUNT:SIZE` or `COUNT:SIZE:random`, as in `1000000:100`.
    ///
    /// # Errors
    /// [`ServeError::Option`] for anything else.
    pub fn parse_synthetic(text: &str) -> Result<Self, ServeError> {
        let number = |part: &str| {
            let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            if digits { part.parse::<u64>().ok() } else { None }
        };
        let numbers = text.strip_suffix(":random").unwrap_or(text);
        let (count, size) =
            numbers.split_once(':').and_then(|(count, size)| number(count).zip(number(size))).ok_or_else(|| {
                ServeError::Option(format!(
                    "synthetic objects are given as COUNT:SIZE or COUNT:SIZE:random, and {text:?} is not that: write \
                    two whole numbers, as in 1000000:100"
                ))
            })?;
        let is_random = numbers.len() < text.len();
        Ok(if is_random { Self::SyntheticRandom { count, size } } else { Self::Synthetic { count, size } })
    }
}

/// How it is served. Start from the default and change what is needed.
#[derive(Debug, Clone)]
pub struct Options {
    /// The address to listen on; 127.0.0.1 reaches no further than this machine.
    pub bind: IpAddr,
    /// The port, 0 for any free one.
    pub port: u16,
    /// Names on one page; a page of 1 MiB has as many as fit.
    pub page_size: usize,
    /// Names under which the service may be asked, in addition to its addresses and this machine's own names.
    pub allow_hosts: Vec<String>,
    /// One line per request is appended here.
    pub access_log: Option<PathBuf>,
    /// Threads that serve; one for every two processors, up to 8, where not given.
    pub threads: Option<usize>,
    /// The path of the listing.
    pub list_path: String,
    /// What stands before the name in the path of an object; begins and ends with `/`.
    pub get_path: String,
    /// The query parameter with the marker of the next page.
    pub marker_param: String,
    /// The field of a page that holds the names.
    pub names_field: String,
    /// The field of a page that holds the marker of the next one.
    pub next_field: String,
    /// Connections open at once; also bounded by the limit of open files. Further ones wait to be accepted.
    pub max_connections: usize,
    /// A connection without a request is closed after this.
    pub idle_timeout: Duration,
    /// A request must be complete this long after its first byte.
    pub header_timeout: Duration,
    /// A client must take some of its answer at least this often.
    pub write_timeout: Duration,
    /// Where large snapshots go; the system's directory for temporary files where not given.
    pub temp_dir: Option<PathBuf>,
    /// Snapshots of the directory kept for listings under way; the least recently used goes first.
    pub snapshots_kept: usize,
    /// Names of one snapshot that are kept in memory; a larger one goes to a temporary file.
    #[doc(hidden)]
    pub names_in_memory: usize,
    /// Bytes of temporary files for all snapshots together, where twice the newest is not more.
    #[doc(hidden)]
    pub snapshot_file_bytes: u64,
    /// Bytes of its answer that a client must take within the write timeout while no further connection can be taken: one
    /// that takes less would hold its place for ever.
    #[doc(hidden)]
    pub taken_when_full: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            bind: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 0,
            page_size: 1000,
            allow_hosts: Vec::new(),
            access_log: None,
            threads: None,
            list_path: "/list".to_owned(),
            get_path: "/get/".to_owned(),
            marker_param: "next-marker".to_owned(),
            names_field: "FileNames".to_owned(),
            next_field: "NextMarker".to_owned(),
            // Bulk clients use some hundreds; each costs two descriptors while it reads a file.
            max_connections: 4096,
            // As common servers have it: a client that pauses for a minute need not connect anew.
            idle_timeout: Duration::from_secs(75),
            header_timeout: Duration::from_secs(15),
            write_timeout: Duration::from_secs(60),
            temp_dir: None,
            snapshots_kept: 16,
            names_in_memory: 1_000_000,
            snapshot_file_bytes: 1 << 30,
            taken_when_full: 64 * 1024,
        }
    }
}

impl Options {
    pub(super) fn check(&self) -> Result<(), ServeError> {
        let wrong = |text: String| Err(ServeError::Option(text));
        if self.page_size == 0 {
            return wrong("a page needs at least one name: set page_size to 1 or more".to_owned());
        }
        if self.threads == Some(0) {
            return wrong("threads must be 1 or more".to_owned());
        }
        if self.max_connections == 0 {
            return wrong("max_connections must be 1 or more".to_owned());
        }
        if let Some(name) = self.allow_hosts.iter().find(|name| !hosts::is_host_name(name)) {
            return wrong(format!(
                "{name:?} is not the name of a host: give it without a scheme, a port or a path, as in \
                \"files.example\""
            ));
        }
        if !self.list_path.starts_with('/') {
            let path = &self.list_path;
            return wrong(format!("the list path {path:?} must begin with \"/\", as in \"/list\""));
        }
        if !self.get_path.starts_with('/') || !self.get_path.ends_with('/') {
            let path = &self.get_path;
            return wrong(format!("the get path {path:?} must begin and end with \"/\", as in \"/get/\""));
        }
        if self.list_path.starts_with(&self.get_path) {
            let (list, get) = (&self.list_path, &self.get_path);
            return wrong(format!(
                "the list path {list:?} is below the get path {get:?} and could not be told from an object: choose \
                another one"
            ));
        }
        Ok(())
    }
}
