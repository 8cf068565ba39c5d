//! What a service counts, as its caller sees it.

/// What a service has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Requests answered, refusals included.
    pub requests: u64,
    /// Bytes of bodies in those answers.
    pub bytes: u64,
    /// Connections accepted.
    pub connections: u64,
    /// Connections open now.
    pub open_connections: usize,
    /// Connections cut: too slow, or not done when the service stopped.
    pub cut_connections: u64,
    /// Files that the latest snapshot leaves out because their name is not UTF-8 or longer than 4,095 bytes.
    pub unlistable_names: u64,
    /// Entries that it leaves out because they are no files: links, devices, pipes, sockets.
    pub not_files: u64,
    /// Directories that it leaves out because they may not be read.
    pub unreadable_directories: u64,
    /// Directories that it leaves out because they were gone when they were to be read, each of several times.
    pub vanished_directories: u64,
    /// Snapshots taken so far.
    pub walks: u64,
    /// Lines of the access log that could not be written.
    pub lost_log_lines: u64,
}
