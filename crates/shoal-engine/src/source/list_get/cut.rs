//! Names of a page: one behind the other in memory, cut into partitions, and found again in a partition's payload.

use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, HostId, Kind, Result};
use crate::name::Name;
use crate::partition::{Cursor, Key, Partition};
use crate::source::{Entries, Entry, Skip, Unlisted};

/// Most objects in one partition: a kill redoes whole partitions, and a lane holds two or three.
pub(super) const PARTITION_MAX: usize = 100;
/// Set in a stored length: the name stood earlier in its page.
const DUPLICATE: u32 = 1 << 31;

/// Begins what stands for objects that could not be listed, by what is known of their names. No name begins so: one with a
/// NUL is not safe.
const UNLISTED: [(&[u8], Unlisted); 3] =
    [(b"\0left out\0", Unlisted::Anywhere), (b"\0directory\0", Unlisted::Below), (b"\0link\0", Unlisted::Itself)];

/// Names one behind the other, each after its length and mark: the form in which partitions carry them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Encoded {
    pub bytes: Vec<u8>,
    /// How many they are.
    pub count: u64,
    /// What is the same for the same names in any order.
    pub sum: u128,
}

impl Encoded {
    /// Appends a name.
    pub fn push(&mut self, name: &[u8], duplicate: bool) {
        let mark = if duplicate { DUPLICATE } else { 0 };
        self.count += 1;
        self.bytes.extend_from_slice(&(name.len() as u32 | mark).to_le_bytes());
        self.bytes.extend_from_slice(name);
    }

    /// Appends what stands for so many (directories, say) that the service could not list. It will be a failure of this name.
    pub fn push_left_out(&mut self, count: u64, [one, many]: [&str; 2]) {
        let what = if count == 1 { one } else { many };
        if count > 0 {
            let name = format!("{count} {what} that the service could not list");
            self.push_unlisted(Unlisted::Anywhere, name.as_bytes(), "");
        }
    }

    /// Appends what stands for objects that could not be listed, with the name of the failure, and why if only the listing
    /// knows.
    pub fn push_unlisted(&mut self, names: Unlisted, name: &[u8], why: &str) {
        let mark = UNLISTED.iter().find(|(_, known)| *known == names).map_or(&b""[..], |(mark, _)| mark);
        self.push(&[mark, name, b"\0", why.as_bytes()].concat(), false);
    }

    /// What is the same for the same names in any order; `None` when there are none.
    pub fn sum(&self) -> Option<u128> {
        (!self.bytes.is_empty()).then_some(self.sum)
    }
}

/// Where the name of the failure is in what stands for objects that could not be listed, and what is known of theirs.
#[inline]
fn unlisted(bytes: &[u8]) -> Option<(Range<usize>, Unlisted)> {
    if bytes.first() != Some(&0) {
        return None; // so it is with nearly all, and every name is looked at
    }
    let (mark, names) = UNLISTED.into_iter().find(|(mark, _)| bytes.starts_with(mark))?;
    let end = memchr::memchr(0, &bytes[mark.len()..]).map_or(bytes.len(), |at| mark.len() + at);
    Some((mark.len()..end, names))
}

/// What identifies an entry: all but why it could not be listed, which may be another the next time.
fn locator(bytes: &[u8]) -> &[u8] {
    unlisted(bytes).map_or(bytes, |(name, _)| &bytes[..name.end])
}

/// The name at `at`, its mark, and where the next begins.
pub(super) fn entry(encoded: &[u8], at: usize) -> Option<(Range<usize>, bool, usize)> {
    let marked = u32::from_le_bytes(encoded.get(at..at + 4)?.try_into().ok()?);
    let end = at + 4 + (marked & !DUPLICATE) as usize;
    encoded.get(at + 4..end)?;
    Some((at + 4..end, marked & DUPLICATE != 0, end))
}

/// Cuts the names of a page into partitions, one at a time.
pub(super) struct Cut {
    names: Encoded,
    at: usize,
    /// `seq` of the next one.
    seq: u64,
    after: Cursor,
    /// Where the listing continues behind the page.
    next: Option<Cursor>,
}

impl Cut {
    pub fn new(names: Encoded, seq: u64, after: Cursor, next: Option<Cursor>) -> Cut {
        Cut { names, at: 0, seq, after, next }
    }

    /// Partitions in it altogether.
    pub fn count(names: &Encoded) -> u64 {
        names.count.div_ceil(PARTITION_MAX as u64)
    }
}

impl Iterator for Cut {
    type Item = Partition;

    fn next(&mut self) -> Option<Partition> {
        let from = self.at;
        for _ in 0..PARTITION_MAX {
            let Some((.., next)) = entry(&self.names.bytes, self.at) else { break };
            self.at = next;
        }
        let payload = self.names.bytes.get(from..self.at).filter(|payload| !payload.is_empty())?;
        let (seq, after) = (self.seq, self.after.clone());
        self.seq += 1;
        let next = if self.at == self.names.bytes.len() { self.next.take() } else { None };
        Some(Partition { seq, after, next, ..partition(payload) })
    }
}

/// A partition with this payload; `seq` and `after` are the caller's to set.
pub(super) fn partition(payload: &[u8]) -> Partition {
    let (mut locators, mut at) = (Vec::with_capacity(PARTITION_MAX), 0);
    while let Some((name, _, next)) = entry(payload, at) {
        locators.push(locator(&payload[name]));
        at = next;
    }
    let len = Some(locators.len() as u32);
    Partition { seq: 0, key: Key::of(locators), after: Cursor::default(), next: None, payload: payload.into(), len }
}

/// A partition of exactly these names; `seq`, `key` and `after` are the caller's to set.
pub(super) fn selected(locators: &[Box<[u8]>]) -> Partition {
    let mut names = Encoded::default();
    locators.iter().for_each(|locator| names.push(locator, false));
    partition(&names.bytes)
}

/// What objects are called at the destination: their names with something before and behind.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LocalName {
    before: String,
    after: String,
}

impl LocalName {
    /// Reads a pattern: `{name}.json`.
    ///
    /// # Errors
    /// [`Kind::Config`] for one without `{name}` or with two, or that no name makes safe.
    pub fn parse(pattern: &str) -> Result<LocalName> {
        let wrong = |why: String| Error::new(Kind::Config, why).hint("as in '{name}.json'");
        let (before, after) = pattern
            .split_once("{name}")
            .filter(|(_, after)| !after.contains("{name}"))
            .ok_or_else(|| wrong(format!("the name {pattern:?} must contain {{name}} exactly once")))?;
        Name::parse(format!("{before}x{after}").as_bytes())
            .map_err(|error| wrong(format!("the name {pattern:?} does not make a safe name: {}", error.why())))?;
        Ok(LocalName { before: before.to_owned(), after: after.to_owned() })
    }

    fn of(&self, name: &[u8]) -> Box<[u8]> {
        [self.before.as_bytes(), name, self.after.as_bytes()].concat().into()
    }
}

/// The names of an open partition, where they lie in its payload.
pub(super) struct Names {
    payload: Arc<[u8]>,
    places: Vec<Place>,
    /// What objects are called at the destination; empty where that is the same.
    made: Vec<Box<[u8]>>,
}

/// Small: every object is looked up several times, and what lies between has driven it out of the processor's cache.
#[derive(Clone, Copy)]
struct Place {
    start: u32,
    end: u32,
    is: Is,
}

#[derive(Clone, Copy)]
enum Is {
    Object,
    Duplicate,
    Unlisted,
}

impl Names {
    /// Finds the names.
    ///
    /// # Errors
    /// [`Kind::Internal`] for a payload this file did not make.
    pub fn new(payload: &Arc<[u8]>, local: &LocalName) -> Result<Names> {
        let plain = *local == LocalName::default();
        let (mut places, mut made) = (Vec::with_capacity(PARTITION_MAX), Vec::new());
        let mut at = 0;
        while let Some((whole, duplicate, next)) = entry(payload, at) {
            let (start, locator) = (whole.start as u32, locator(&payload[whole.clone()]));
            let is = match (unlisted(locator), duplicate) {
                (Some(_), _) => Is::Unlisted,
                (None, true) => Is::Duplicate,
                (None, false) => Is::Object,
            };
            if !plain {
                made.push(match unlisted(locator) {
                    Some((name, Unlisted::Below)) => [local.before.as_bytes(), &locator[name]].concat().into(),
                    Some((name, _)) => locator[name].into(),
                    None => local.of(locator),
                });
            }
            places.push(Place { start, end: start + locator.len() as u32, is });
            at = next;
        }
        if at != payload.len() {
            return Err(Error::new(Kind::Internal, "the names of a partition are damaged"));
        }
        Ok(Names { payload: payload.clone(), places, made })
    }
}

impl Entries for Names {
    fn len(&self) -> u32 {
        self.places.len() as u32
    }

    fn get(&self, index: u32) -> Entry<'_> {
        let Place { start, end, is } = self.places[index as usize];
        let locator = &self.payload[start as usize..end as usize];
        let name = self.made.get(index as usize).map_or(locator, |made| made);
        let entry = Entry { name, locator, host: HostId(0), skip: None, unlisted: None };
        match is {
            Is::Object => entry,
            Is::Duplicate => Entry { skip: Some(Skip::Duplicate), ..entry },
            Is::Unlisted => match unlisted(locator) {
                Some((own, unlisted)) => {
                    let name = if self.made.is_empty() { &locator[own] } else { name };
                    Entry { name, unlisted: Some(unlisted), ..entry }
                }
                None => entry,
            },
        }
    }

    /// Why what the entry stands for could not be listed.
    fn request(&self, index: u32) -> &[u8] {
        let Place { start, end, .. } = self.places[index as usize];
        let whole = entry(&self.payload, start as usize - 4).map(|(whole, ..)| &self.payload[end as usize..whole.end]);
        whole.and_then(|rest| rest.split_first()).map_or(&[], |(_, why)| why)
    }
}

#[cfg(test)]
mod tests {
    use super::super::ListGetOptions;
    use super::super::page::parse;
    use super::*;

    #[test]
    fn partitions_hold_a_hundred_names_at_most_and_mark_duplicates() {
        let names: Vec<String> = (0..250).map(|n| format!("n{}", n % 240)).collect();
        let json = serde_json::json!({ "FileNames": names }).to_string();
        let names = parse(json.as_bytes(), &ListGetOptions::default()).unwrap().names;
        assert_eq!(Cut::count(&names), 3);
        let cut: Vec<Partition> = Cut::new(names, 7, Cursor::default(), None).collect();
        let numbers: Vec<_> = cut.iter().map(|p| (p.seq, p.len)).collect();
        assert_eq!(numbers, [(7, Some(100)), (8, Some(100)), (9, Some(50))]);
        let last = Names::new(&cut[2].payload, &LocalName::default()).unwrap();
        let duplicates = (0..last.len()).filter(|&index| last.get(index).skip.is_some()).count();
        assert_eq!((duplicates, last.get(0).name), (10, &b"n200"[..]));
    }
}
