//! `AtRow`: the blocks of the row that a thread is at.

use std::sync::Arc;

use shoal_engine::ObjectMeta;

use super::blocks::{Block, Names, contents};
use super::column::Decoded;
use super::fault::{Fault, Result};
use super::open_file::OpenFile;

/// A row of a file, and its blocks.
pub struct AtRow {
    pub file: Arc<OpenFile>,
    group: usize,
    row: u32,
    names: Arc<Block<Names>>,
    data: Arc<Block<Decoded>>,
}

impl AtRow {
    /// Moves on to a row, and decodes its blocks if it is not in those of the row before.
    pub fn new(before: Option<AtRow>, file: &Arc<OpenFile>, group: usize, row: u32) -> AtRow {
        match before.filter(|before| before.is_in(file, group)) {
            None => {
                let (names, data) = (file.names(group, row), file.data(group, row));
                AtRow { file: file.clone(), group, row, names, data }
            }
            Some(mut at) => {
                at.row = row;
                if !at.names.rows.contains(&row) {
                    at.names = file.names(group, row);
                }
                if !at.data.rows.contains(&row) {
                    at.data = file.data(group, row);
                }
                at
            }
        }
    }

    /// Whether it is in this row group.
    pub fn is_in(&self, file: &Arc<OpenFile>, group: usize) -> bool {
        Arc::ptr_eq(&self.file, file) && self.group == group
    }

    /// Its name.
    pub fn name(&self) -> Result<&[u8]> {
        self.names()?.name(self.row).map_err(|fault| self.in_row(fault))
    }

    /// What its columns say, and its contents, which are as long as they say.
    pub fn object(&self) -> Result<(ObjectMeta, &[u8])> {
        let object = || {
            let mut meta = self.names()?.meta(self.row)?;
            let data = self.data.get().ok_or_else(super::open_file::undecoded)?;
            let bytes = contents(data, self.row, meta.size)?;
            meta.size = Some(bytes.len() as u64);
            Ok((meta, bytes))
        };
        object().map_err(|fault| self.in_row(fault))
    }

    /// The fault of a row that could be read, but must not be as it is.
    pub fn wrong(&self, why: &str) -> Fault {
        self.in_row(Fault::new(shoal_engine::Kind::Archive, why))
    }

    fn names(&self) -> Result<&Names> {
        self.names.get().ok_or_else(super::open_file::undecoded)
    }

    fn in_row(&self, fault: Fault) -> Fault {
        self.file.in_row(self.group, self.row, fault)
    }
}
