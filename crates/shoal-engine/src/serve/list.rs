//! `GET /list`: pages of names, the markers that chain them, and the snapshots that are kept for them.
//!
//! A marker of synthetic objects is the index of the next one. A marker of a directory is
//! `INSTANCE.SNAPSHOT.PLACE.NAME` in hexadecimal: where to go on in a snapshot of this service, and the last name
//! given, from which a restarted service goes on in a fresh snapshot.
//! Not here: making snapshots (`dir.rs`, `snapshot.rs`), request and response (`answer.rs`).

use super::dir::{Directory, Refusal};
use super::snapshot::{Skipped, Snapshot, Sorter};
use super::synthetic::Synthetic;
use super::threads::{Held, Shared};
use bytes::Bytes;
use hyper::StatusCode;
use std::fmt::Write as _;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Semaphore;

/// Bytes after which a page ends before it has all its names: clients cap a page (ours at 64 MiB).
const PAGE_BYTES: usize = 16 * 1024 * 1024;
/// Bytes of names kept in memory for all snapshots together; the least recently used go first.
const KEEP_BYTES: usize = 256 * 1024 * 1024;

const BAD_MARKER: Refusal = (StatusCode::BAD_REQUEST, "this marker is none of this service; list again from the start");
const DROPPED: Refusal = (
    StatusCode::GONE,
    "the snapshot of this marker was dropped because newer listings took its place; list again from the start",
);
const WALK_FAILED: Refusal = (
    StatusCode::INTERNAL_SERVER_ERROR,
    "the directory cannot be listed; see the server's disk and the free space for temporary files",
);

/// What a snapshot is known by outside: the service that took it, and its number there.
type Identity = (u64, u64);

/// The snapshots of one service.
#[derive(Debug)]
pub(super) struct Listings {
    instance: u64,
    kept: Mutex<Kept>,
    /// One walk at a time: a second one would only fight the first for the disk.
    walking: Semaphore,
}

#[derive(Debug, Default)]
struct Kept {
    next: u64,
    /// Least recently used first.
    snapshots: Vec<(u64, Arc<Snapshot>)>,
    /// Which snapshot here goes on for which one of an earlier service, so that many markers of one listing that was
    /// cut by a restart share one walk.
    resumed: Vec<(Identity, u64)>,
    skipped: Skipped,
}

struct Marker {
    identity: Identity,
    place: u64,
    name: Vec<u8>,
}

impl Listings {
    pub(super) fn new() -> Self {
        let kept = Mutex::new(Kept::default());
        Self { instance: fastrand::u64(..), kept, walking: Semaphore::new(1) }
    }

    /// What the latest walk left out.
    pub(super) fn skipped(&self) -> Skipped {
        self.lock().skipped
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The page if it can be given at once; `None` if a snapshot must be taken first.
pub(super) fn ready_page(shared: &Shared, marker: Option<&str>) -> Result<Option<Bytes>, Refusal> {
    match (&shared.held, marker) {
        (Held::Synthetic(objects), marker) => synthetic_page(shared, objects, marker).map(Some),
        (Held::Directory(_), None) => Ok(None),
        (Held::Directory(_), Some(marker)) => {
            let marker = parse_marker(marker).ok_or(BAD_MARKER)?;
            known_page(shared, &marker)
        }
    }
}

/// Takes a snapshot and gives the page from it. To be called when `ready_page` gave none.
pub(super) async fn walked_page(shared: Arc<Shared>, marker: Option<String>) -> Result<Bytes, Refusal> {
    let permit = shared.listings.walking.acquire().await.map_err(|_| WALK_FAILED)?;
    let marker = marker.as_deref().and_then(parse_marker);
    // Another request of the same listing may have taken the snapshot meanwhile.
    if let Some(marker) = &marker
        && let Some(page) = known_page(&shared, marker)?
    {
        return Ok(page);
    }
    let for_walk = Arc::clone(&shared);
    let walked = tokio::task::spawn_blocking(move || match &for_walk.held {
        Held::Directory(directory) => take_snapshot(&for_walk, directory),
        Held::Synthetic(_) => Err(io::Error::other("nothing to walk")),
    });
    let snapshot = match walked.await {
        Ok(Ok(snapshot)) => Arc::new(snapshot),
        Ok(Err(_)) | Err(_) => return Err(WALK_FAILED),
    };
    let number = keep(&shared, &snapshot, marker.as_ref().map(|marker| marker.identity));
    drop(permit);
    let place = match marker {
        Some(marker) => snapshot.place_after(&marker.name).map_err(|_| WALK_FAILED)?,
        None => 0,
    };
    snapshot_page(&shared, &snapshot, number, place)
}

fn take_snapshot(shared: &Shared, directory: &Directory) -> io::Result<Snapshot> {
    let mut sorter = Sorter::new(shared.options.names_in_memory, &shared.temp_dir);
    directory.walk(&mut sorter, &shared.stopping)?;
    sorter.finish()
}

fn keep(shared: &Shared, snapshot: &Arc<Snapshot>, resumes: Option<Identity>) -> u64 {
    let mut kept = shared.listings.lock();
    let number = kept.next;
    kept.next += 1;
    kept.skipped = snapshot.skipped;
    kept.snapshots.push((number, Arc::clone(snapshot)));
    if let Some(identity) = resumes {
        kept.resumed.push((identity, number));
    }
    let most = shared.options.snapshots_kept.max(1);
    let mut bytes: usize = kept.snapshots.iter().map(|(_, one)| one.memory()).sum();
    while kept.snapshots.len() > most || (bytes > KEEP_BYTES && kept.snapshots.len() > 1) {
        let (dropped, snapshot) = kept.snapshots.remove(0);
        bytes -= snapshot.memory();
        kept.resumed.retain(|(_, number)| *number != dropped);
    }
    number
}

/// The page that follows a marker, where its snapshot (or the one that goes on for it) is here.
fn known_page(shared: &Shared, marker: &Marker) -> Result<Option<Bytes>, Refusal> {
    let (instance, number) = marker.identity;
    let own = instance == shared.listings.instance;
    let found = {
        let mut kept = shared.listings.lock();
        let number = if own {
            Some(number)
        } else {
            kept.resumed.iter().find(|(from, _)| *from == marker.identity).map(|(_, to)| *to)
        };
        let at = kept.snapshots.iter().position(|(one, _)| Some(*one) == number);
        at.map(|at| {
            let used = kept.snapshots.remove(at);
            kept.snapshots.push(used.clone());
            used
        })
    };
    let Some((number, snapshot)) = found else {
        return if own { Err(DROPPED) } else { Ok(None) };
    };
    let place = if own { Ok(marker.place) } else { snapshot.place_after(&marker.name) };
    let place = place.map_err(|_| WALK_FAILED)?;
    if !snapshot.is_boundary(place).map_err(|_| WALK_FAILED)? {
        return Err(BAD_MARKER);
    }
    snapshot_page(shared, &snapshot, number, place).map(Some)
}

fn snapshot_page(shared: &Shared, snapshot: &Snapshot, number: u64, place: u64) -> Result<Bytes, Refusal> {
    let mut page = Page::new(shared);
    let mut last = Vec::new();
    let next = snapshot.names_from(place, |name| {
        last.clear();
        last.extend_from_slice(name);
        page.push(name)
    });
    let next = next.map_err(|_| WALK_FAILED)?;
    let more = next < snapshot.length();
    let marker = more.then(|| {
        let mut text = format!("{:x}.{number:x}.{next:x}.", shared.listings.instance);
        for byte in &last {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        text
    });
    Ok(page.finish(marker))
}

fn synthetic_page(shared: &Shared, objects: &Synthetic, marker: Option<&str>) -> Result<Bytes, Refusal> {
    let mut index = match marker {
        Some(marker) => marker.parse().map_err(|_| BAD_MARKER)?,
        None => 0u64,
    };
    if index > objects.count {
        return Err(BAD_MARKER);
    }
    let mut page = Page::new(shared);
    let mut name = Vec::with_capacity(32);
    let mut more = true;
    while more && index < objects.count {
        name.clear();
        objects.name(index, &mut name);
        more = page.push(&name);
        index += 1;
    }
    Ok(page.finish((index < objects.count).then(|| index.to_string())))
}

/// `{"FileNames":[…],"NextMarker":"…"}`, written as it grows.
struct Page<'a> {
    shared: &'a Shared,
    json: Vec<u8>,
    names: usize,
}

impl<'a> Page<'a> {
    fn new(shared: &'a Shared) -> Self {
        let mut json = Vec::with_capacity(32 * 1024);
        json.push(b'{');
        push_string(&mut json, shared.options.names_field.as_bytes());
        json.extend_from_slice(b":[");
        Self { shared, json, names: 0 }
    }

    /// Whether the page takes another name after this one.
    fn push(&mut self, name: &[u8]) -> bool {
        if self.names > 0 {
            self.json.push(b',');
        }
        push_string(&mut self.json, name);
        self.names += 1;
        self.names < self.shared.options.page_size && self.json.len() < PAGE_BYTES
    }

    fn finish(mut self, marker: Option<String>) -> Bytes {
        self.json.push(b']');
        if let Some(marker) = marker {
            self.json.push(b',');
            push_string(&mut self.json, self.shared.options.next_field.as_bytes());
            self.json.push(b':');
            push_string(&mut self.json, marker.as_bytes());
        }
        self.json.push(b'}');
        Bytes::from(self.json)
    }
}

/// A JSON string; the text is UTF-8 (names that are not never reach a snapshot).
fn push_string(json: &mut Vec<u8>, text: &[u8]) {
    json.push(b'"');
    for byte in text {
        match byte {
            b'"' | b'\\' => json.extend_from_slice(&[b'\\', *byte]),
            0..0x20 | 0x7f => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                json.extend_from_slice(b"\\u00");
                json.push(HEX[usize::from(byte >> 4)]);
                json.push(HEX[usize::from(byte & 15)]);
            }
            _ => json.push(*byte),
        }
    }
    json.push(b'"');
}

fn parse_marker(text: &str) -> Option<Marker> {
    let mut parts = text.split('.');
    let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
    let (instance, snapshot, place) = (number()?, number()?, number()?);
    let digits = parts.next()?.as_bytes();
    if parts.next().is_some() || digits.len() % 2 != 0 {
        return None;
    }
    let value = |digit: u8| char::from(digit).to_digit(16);
    let name = digits
        .chunks_exact(2)
        .map(|pair| Some((value(pair[0])? * 16 + value(pair[1])?) as u8))
        .collect::<Option<Vec<u8>>>()?;
    Some(Marker { identity: (instance, snapshot), place, name })
}

#[cfg(test)]
mod tests {
    use super::push_string;

    #[test]
    fn names_are_json_strings_that_parse_back_to_the_same_name() {
        for name in ["plain", "qu\"ote", "back\\slash", "new\nline\u{1b}[31m\u{7f}", "日本語 é"] {
            let mut json = Vec::new();
            push_string(&mut json, name.as_bytes());
            assert_eq!(serde_json::from_slice::<String>(&json).unwrap(), name);
        }
    }
}
