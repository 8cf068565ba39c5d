//! The connection-level HTTP/1.1 GET client shared by sources.
