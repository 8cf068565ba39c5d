//! Tar as a [`Format`].

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::{contents, headers, unpack};
use crate::error::Result;
use crate::source::archive::archive_file::ArchiveFile;
use crate::source::archive::decode::{MAGIC, Method};
use crate::source::archive::format::{Format, Unpacker};
use crate::source::archive::options::ArchiveOptions;
use crate::source::archive::plan::Plan;

/// The tar format, with what its lanes share.
#[derive(Default)]
pub(crate) struct Tar {
    /// Bytes that all lanes hold of files with several copies.
    held: Arc<AtomicU64>,
}

impl Format for Tar {
    fn is_stream(&self) -> bool {
        true
    }

    fn begins(&self, head: &[u8]) -> bool {
        Method::of_file(head).is_some() || headers::begins(head)
    }

    fn plan(&self, file: &ArchiveFile, options: &ArchiveOptions) -> Result<Plan> {
        let mut head = [0; MAGIC];
        let length = file.read_at(&mut head, 0)?;
        let plan = match Method::of_file(&head[..length]) {
            None => contents::of_plain(file, options),
            Some(method) => contents::of_packed(method, file, options),
        };
        file.unchanged()?; // a change explains any other error
        plan?.checked(file, options)
    }

    fn unpacker(&self) -> Box<dyn Unpacker> {
        Box::new(unpack::TarUnpacker::new(self.held.clone()))
    }
}
