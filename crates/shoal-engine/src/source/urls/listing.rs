//! Cuts a list into partitions: a window of records at a time, which is sorted by host, so that most partitions have one
//! host. A slow host then holds up its own partitions only.
//!
//! A window depends on the records in it alone, so the listing is the same each time. The cursor of a page is the place of
//! its window, a hash of all records to the end of that, and how many partitions of the window come before the page. A
//! resumed listing reads the list from its start, and is refused if the hash differs: a window with other records is cut
//! in another way.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use xxhash_rust::xxh3::Xxh3;

use super::Shared;
use super::address::Parser;
use super::by_host::ByHost;
use super::entries::{Listed, head, push};
use super::record::{HASH, Record, Records, Step};
use crate::error::{HostId, Result};
use crate::partition::{Cursor, Key, Partition};
use crate::source::file_cursor::{PageStart, Position, refused};
use crate::source::pages::Pages;
use crate::source::{BoxFuture, Listing};

/// Most objects of a partition, as in a page of a list/get service.
const PARTITION_MAX: usize = 100;
/// Hosts with fewer records in a window share partitions: one of its own costs as much as 20 objects.
const OWN_MIN: usize = 20;
/// Records and bytes of a window. The first ones are smaller, so that lanes have work soon.
const WINDOW_RECORDS_MIN: u64 = 1_000;
const WINDOW_RECORDS: u64 = 50_000;
const WINDOW_BYTES: usize = 8 << 20;
/// Records after which the engine may look for a stop.
const TURN: u64 = 10_000;
/// How long to wait for more of a stream.
const WAIT: Duration = Duration::from_millis(5);

/// The records of a window.
#[derive(Default)]
struct Window {
    /// As in a payload.
    bytes: Vec<u8>,
    /// Where each ends, its host and its hash.
    rows: Vec<(usize, HostId, [u8; HASH])>,
    parser: Parser,
}

impl Window {
    /// Whether nothing is added any more. `before`: how many records are before the window.
    fn is_full(&self, before: u64) -> bool {
        self.rows.len() as u64 >= before.clamp(WINDOW_RECORDS_MIN, WINDOW_RECORDS) || self.bytes.len() >= WINDOW_BYTES
    }

    fn push(&mut self, record: &Record, index: u64, hash: [u8; HASH]) {
        let url = if record.bad { None } else { self.parser.parse(&record.url).ok() };
        let host = url.map_or(HostId(0), |(_, host)| host);
        push(&mut self.bytes, Listed { record, index, host, hash });
        self.rows.push((self.bytes.len(), host, hash));
    }

    fn record(&self, row: usize) -> &[u8] {
        let start = row.checked_sub(1).map_or(0, |before| self.rows[before].0);
        &self.bytes[start..self.rows[row].0]
    }

    /// Its partitions, in the order of their first records. `ordered`: in the order of the list, whatever the hosts.
    fn cut(&self, ordered: bool) -> VecDeque<Partition> {
        let mut by_host: ByHost<Vec<usize>> = ByHost::default();
        let mut mixed = Vec::new();
        if ordered {
            mixed = (0..self.rows.len()).collect();
        } else {
            for (row, (_, host, _)) in self.rows.iter().enumerate() {
                by_host.entry(*host).or_default().push(row);
            }
        }
        let mut groups: Vec<(Option<HostId>, Vec<usize>)> = Vec::new();
        for (host, rows) in by_host {
            match host.0 != 0 && rows.len() >= OWN_MIN {
                true => groups.push((Some(host), rows)),
                false => mixed.extend(rows),
            }
        }
        mixed.sort_unstable();
        groups.push((None, mixed));
        let mut parts: Vec<(usize, Partition)> = Vec::new();
        for (host, rows) in &groups {
            for rows in rows.chunks(PARTITION_MAX) {
                let mut payload = head(*host);
                rows.iter().for_each(|&row| payload.extend_from_slice(self.record(row)));
                let key = Key::of(rows.iter().map(|&row| &self.rows[row].2[..]));
                let (len, payload) = (Some(rows.len() as u32), payload.into());
                let partition = Partition { seq: 0, key, after: Cursor::default(), next: None, payload, len };
                parts.push((rows[0], partition));
            }
        }
        parts.sort_unstable_by_key(|(first, _)| *first);
        parts.into_iter().map(|(_, partition)| partition).collect()
    }
}

/// The listing of a list of URLs.
pub(super) struct UrlListing {
    shared: Arc<Shared>,
    records: Box<dyn Records>,
    record: Record,
    /// See `Record::hash`.
    space: Vec<u8>,
    /// A record has been read that is not in a window yet.
    is_read: bool,
    ended: bool,
    /// Where the run stopped, until the list is read to there.
    begin: Option<Position>,
    /// The hash of all records so far, and their number.
    chain: Xxh3,
    count: u64,
    /// Partitions of the window that are left, and how many have been taken.
    cut: VecDeque<Partition>,
    done: u32,
    /// The place of the window.
    window: Position,
    pages: Pages,
}

impl UrlListing {
    pub fn new(shared: Arc<Shared>, after: Option<Cursor>) -> Result<UrlListing> {
        let begin = PageStart::of(after.as_ref())?;
        let records = shared.list.read()?;
        Ok(UrlListing {
            shared,
            records,
            record: Record::default(),
            space: Vec::new(),
            is_read: false,
            ended: false,
            pages: Pages::new(begin.seq, begin.cursor()),
            begin: begin.within,
            chain: Xxh3::new(),
            count: 0,
            cut: VecDeque::new(),
            done: 0,
            window: Position { at: 0, done: 0, chain: 0 },
        })
    }

    /// Reads the next record, unless one is read.
    async fn read(&mut self, waits: bool) -> Result<Step> {
        while !self.is_read && !self.ended {
            match self.records.next(&mut self.record)? {
                Step::Record => {
                    self.is_read = true;
                    if self.count.is_multiple_of(TURN) {
                        tokio::task::yield_now().await;
                    }
                }
                Step::End => self.ended = true,
                Step::Wait if waits => tokio::time::sleep(WAIT).await,
                Step::Wait => return Ok(Step::Wait),
            }
        }
        Ok(if self.is_read { Step::Record } else { Step::End })
    }

    /// Counts the record that is read.
    fn pass(&mut self) -> [u8; HASH] {
        let hash = self.record.hash(&self.shared.key, &mut self.space);
        self.chain.update(&hash);
        self.count += 1;
        self.is_read = false;
        hash
    }

    /// Reads to the window in which the run stopped, and the window.
    async fn skip(&mut self, to: &Position) -> Result<()> {
        while self.read(true).await? == Step::Record && self.record.position < to.at {
            self.pass();
        }
        let is_there = self.is_read && self.record.position == to.at;
        if !is_there || !self.next_window().await? || self.window.chain != to.chain {
            return Err(refused("the list has changed before the point where the run stopped"));
        }
        Ok(())
    }

    async fn next_window(&mut self) -> Result<bool> {
        let mut window = Window::default();
        let before = self.count;
        while !window.is_full(before) {
            match self.read(window.rows.is_empty()).await? {
                Step::Record => {
                    if window.rows.is_empty() {
                        self.window.at = self.record.position;
                    }
                    let index = self.count;
                    let hash = self.pass();
                    window.push(&self.record, index, hash);
                }
                Step::Wait | Step::End => break,
            }
        }
        self.window.chain = self.chain.digest128();
        (self.cut, self.done) = (window.cut(self.shared.options.ordered), 0);
        Ok(!self.cut.is_empty())
    }

    async fn advance(&mut self) -> Result<Option<Partition>> {
        let mut before = 0;
        if let Some(begin) = self.begin.clone() {
            self.skip(&begin).await?;
            before = begin.done;
            self.begin = None;
        }
        loop {
            if let Some(partition) = self.cut.pop_front() {
                self.done += 1;
                if self.done <= before {
                    continue;
                }
                let within = Position { done: self.done, ..self.window.clone() };
                return Ok(Some(self.pages.number(partition, |seq| PageStart { seq, within: Some(within) }.cursor())));
            }
            if before > self.done {
                return Err(refused("the list has changed at the point where the run stopped"));
            }
            before = 0;
            if !self.next_window().await? {
                return Ok(None);
            }
        }
    }
}

impl Listing for UrlListing {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Partition>>> {
        Box::pin(self.advance())
    }
}
