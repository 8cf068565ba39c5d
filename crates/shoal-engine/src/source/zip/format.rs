//! Zip as a [`Format`].

use std::sync::Arc;
use std::time::SystemTime;

use super::{directory, end, extents, local, time, unpack};
use crate::error::Result;
use crate::source::archive::archive_file::ArchiveFile;
use crate::source::archive::format::{Format, Unpacker};
use crate::source::archive::member::Member;
use crate::source::archive::options::ArchiveOptions;
use crate::source::archive::plan::Plan;

/// The zip format, with what its lanes share.
#[derive(Default)]
pub(crate) struct Zip {
    shared: Arc<unpack::SharedMemory>,
}

impl Format for Zip {
    fn begins(&self, head: &[u8]) -> bool {
        head.starts_with(local::SIGNATURE) || head.starts_with(end::SIGNATURE)
    }

    fn plan(&self, file: &ArchiveFile, options: &ArchiveOptions) -> Result<Plan> {
        let end = end::find(file)?;
        let mut plan = directory::read(file, &end, options)?;
        extents::bound(&mut plan, end.at, options.allow_overlap)?;
        if end::follows_another(file, &end)? {
            plan.push_damaged("the file begins with another archive, and only the last one is unpacked".into(), file);
        }
        plan.checked(file, options)
    }

    fn unpacker(&self) -> Box<dyn Unpacker> {
        Box::new(unpack::ZipUnpacker::new(self.shared.clone()))
    }

    fn modified(&self, member: &Member) -> Option<SystemTime> {
        Member { modified: time::Clock::default().settle(member), ..member.clone() }.last_modified()
    }
}
