//! An open file with its blocks, and whether the bytes of each row group are those that were written.

use std::sync::{Arc, Mutex, PoisonError};

use shoal_engine::Kind;

use super::blocks::{Block, Blocks, Names};
use super::checksum::{Progress, bytes_of};
use super::column::Decoded;
use super::fault::{Fault, Result, guarded};
use super::footer::{Field, ParquetFile};

/// What lanes share of a file.
pub struct OpenFile {
    pub parquet: ParquetFile,
    groups: Vec<OpenGroup>,
}

#[derive(Default)]
struct OpenGroup {
    names: Blocks<Names>,
    data: Blocks<Decoded>,
    checked: Mutex<Checked>,
}

/// Whether a row group has the bytes that its checksum is of.
#[derive(Default)]
enum Checked {
    #[default]
    No,
    Hashing(Box<Progress>),
    Done(Result<()>),
}

impl OpenFile {
    pub fn open(path: &[u8]) -> Result<OpenFile> {
        let parquet = ParquetFile::open(path)?;
        let groups = parquet.groups.iter().map(|_| OpenGroup::default()).collect();
        Ok(OpenFile { parquet, groups })
    }

    /// Whether it has this row.
    pub fn has(&self, group: usize, row: u32) -> bool {
        self.parquet.groups.get(group).is_some_and(|group| row < group.rows)
    }

    /// The block with the name of a row.
    pub fn names(&self, group: usize, row: u32) -> Arc<Block<Names>> {
        let block = self.groups[group].names.at(&self.parquet, group, Field::Name, row);
        block.decoded(|rows| Names::decode(&self.parquet, group, rows));
        block
    }

    /// The block with the contents of a row.
    pub fn data(&self, group: usize, row: u32) -> Arc<Block<Decoded>> {
        let block = self.groups[group].data.at(&self.parquet, group, Field::Data, row);
        block.decoded(|rows| Decoded::new(&self.parquet, group, Field::Data, rows));
        block
    }

    /// The first rows of the blocks of contents.
    pub fn data_starts(&self, group: usize) -> &[u32] {
        self.groups[group].data.starts(&self.parquet, group, Field::Data)
    }

    /// Says in which row of the file something is wrong, counted from 0.
    pub fn in_row(&self, group: usize, row: u32, fault: Fault) -> Fault {
        if fault.is_general() || fault.kind == Kind::Changed {
            return fault;
        }
        let row = self.parquet.rows_before(group) + u64::from(row);
        fault.at(&format!("row {row}"))
    }

    /// Works on the checksum of a row group for less than a millisecond. Returns the verdict once there is one.
    pub fn check(&self, group: usize) -> Option<Result<()>> {
        let mut checked = self.groups[group].checked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Checked::Done(verdict) = &*checked {
            return Some(verdict.clone());
        }
        let verdict = guarded(|| self.step(group, &mut checked)).transpose()?.and_then(|matches| match matches {
            true => self.parquet.file.unchanged(),
            false => Err(self.parquet.file.unchanged().err().unwrap_or_else(|| {
                let why = format!("row group {group} does not match its checksum: any row of it may be wrong");
                Fault::new(Kind::Integrity, why)
            })),
        });
        match &verdict {
            Err(fault) if fault.is_general() => *checked = Checked::No,
            verdict => *checked = Checked::Done(verdict.clone()),
        }
        Some(verdict)
    }

    /// Hashes the next bytes. Returns at the end whether the hash is right.
    fn step(&self, group: usize, checked: &mut Checked) -> Result<Option<bool>> {
        let Some(sums) = &self.parquet.checksums else { return Ok(Some(true)) };
        if matches!(checked, Checked::No) {
            let bytes = bytes_of(self.parquet.metadata.row_group(group));
            let bytes = bytes.filter(|bytes| bytes.end <= self.parquet.file.facts.size);
            let Some(bytes) = bytes else {
                return Err(Fault::new(Kind::Archive, format!("row group {group} is outside the file")));
            };
            *checked = Checked::Hashing(Box::new(Progress::new(bytes)));
        }
        let Checked::Hashing(progress) = checked else { return Ok(Some(true)) };
        Ok(progress.step(&self.parquet.file)?.map(|hash| hash == sums[group]))
    }
}

pub fn undecoded() -> Fault {
    Fault::new(Kind::Internal, "a block is not decoded")
}
