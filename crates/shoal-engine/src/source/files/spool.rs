//! `Spool`: the names of files that have several, sorted by file. They come after all others of a listing, so that the names
//! of one file are together.
//!
//! A temporary database of SQLite, which sorts, and goes to disk beyond 64 MiB.

use rusqlite::{Connection, params};

use crate::error::{Error, Kind, Result};
use crate::fs::dir::FileId;

/// Names stored and read back at once.
const PAGE: usize = 1000;
/// It is the only user of the file, which SQLite removes when it is opened. Nothing of it outlives the listing.
const SETUP: &str = "PRAGMA cache_size = -65536; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; \
    CREATE TABLE name (device INTEGER, inode INTEGER, path BLOB, PRIMARY KEY (device, inode, path)) WITHOUT ROWID; BEGIN";
const ADD: &str = "INSERT OR IGNORE INTO name VALUES (?1, ?2, ?3)";
const NEXT: &str = "SELECT device, inode, path FROM name WHERE (device, inode, path) > (?1, ?2, ?3) \
    ORDER BY device, inode, path LIMIT ?4";

/// The names of files that have several.
pub(super) struct Spool {
    names: Connection,
    /// Those that it does not have yet.
    added: Vec<(FileId, Vec<u8>)>,
    /// The last one that was read back.
    last: (i64, i64, Vec<u8>),
    /// Those that come next, the first one last.
    ready: Vec<(FileId, Vec<u8>)>,
}

impl Spool {
    /// # Errors
    /// [`Kind::Listing`] if there is no room for temporary files.
    pub fn new() -> Result<Spool> {
        let names = Connection::open("").map_err(failed)?;
        names.execute_batch(SETUP).map_err(failed)?;
        Ok(Spool { names, added: Vec::new(), last: (i64::MIN, i64::MIN, Vec::new()), ready: Vec::new() })
    }

    pub fn add(&mut self, file: FileId, path: &[u8]) -> Result<()> {
        self.added.push((file, path.to_vec()));
        if self.added.len() < PAGE { Ok(()) } else { self.store().map_err(failed) }
    }

    fn store(&mut self) -> rusqlite::Result<()> {
        let mut add = self.names.prepare(ADD)?;
        for (file, path) in self.added.drain(..) {
            add.execute(params![file.device as i64, file.inode as i64, path])?;
        }
        Ok(())
    }

    /// The next file with its names, and at least `wanted` names in all, or what is left.
    pub fn groups(&mut self, wanted: usize) -> Result<Vec<Vec<Vec<u8>>>> {
        let (mut groups, mut names, mut last): (Vec<Vec<Vec<u8>>>, usize, Option<FileId>) = (Vec::new(), 0, None);
        loop {
            if self.ready.is_empty() {
                self.read()?;
            }
            let Some((file, _)) = self.ready.last() else { return Ok(groups) };
            let is_same = last == Some(*file);
            if !is_same && names >= wanted {
                return Ok(groups);
            }
            last = Some(*file);
            let Some((_, path)) = self.ready.pop() else { return Ok(groups) };
            names += 1;
            match groups.last_mut() {
                Some(group) if is_same => group.push(path),
                _ => groups.push(vec![path]),
            }
        }
    }

    fn read(&mut self) -> Result<()> {
        self.store().map_err(failed)?;
        let (device, inode, path) = &self.last;
        let mut next = self.names.prepare(NEXT).map_err(failed)?;
        let rows = next.query_map(params![device, inode, path, PAGE as i64], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, Vec<u8>>(2)?))
        });
        let rows: Vec<_> = rows.and_then(Iterator::collect).map_err(failed)?;
        if let Some(last) = rows.last() {
            self.last = last.clone();
        }
        let file = |device, inode| FileId { device: device as u64, inode: inode as u64 };
        self.ready = rows.into_iter().rev().map(|(device, inode, path)| (file(device, inode), path)).collect();
        Ok(())
    }
}

fn failed(error: rusqlite::Error) -> Error {
    let why = format!("the names of files with several names cannot be sorted: {error}");
    Error::new(Kind::Listing, why).hint("is there room for temporary files? TMPDIR says where")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_one_file_come_together_however_many_there_are() {
        let mut spool = Spool::new().unwrap();
        let file = |number: u64| FileId { device: u64::MAX - number % 2, inode: number };
        for name in 0..5000u64 {
            spool.add(file(name % 7), format!("{name:04}").as_bytes()).unwrap();
        }
        spool.add(file(99), b"alone").unwrap();
        let mut groups = Vec::new();
        loop {
            let next = spool.groups(100).unwrap();
            if next.is_empty() {
                break;
            }
            groups.extend(next);
        }
        assert_eq!(groups.len(), 8);
        for group in &groups {
            assert!(group.is_sorted(), "the first one is the same each time");
            let number = |name: &[u8]| std::str::from_utf8(name).unwrap().parse::<u64>().map(|name| name % 7);
            assert!(group.iter().all(|name| number(name) == number(&group[0])), "of one file");
        }
        assert_eq!(groups.iter().map(Vec::len).sum::<usize>(), 5001);
    }
}
