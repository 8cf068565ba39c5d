//! The pages of a listing, one after the other, as partitions. Within a run they follow each other by tokens. Partitions do
//! not depend on how the store cuts its pages, so that those of a resumed listing are the same. Not here: what a page says
//! (`page.rs`), where an interrupted listing continues (`place.rs`).

use std::collections::VecDeque;
use std::sync::Arc;

use shoal_engine::display::count;
use shoal_engine::source::{BoxFuture, Listing, ListingEnd, Pages as Numbered, Unmatched};
use shoal_engine::{Cursor, Error, Findings, Kind, Partition, Result};

use crate::entries::{self, Listed};
use crate::page::Page;
use crate::pager::{Ask, Pager};
use crate::place::{Place, WINDOW};
use crate::store::Store;

/// Objects of a partition.
const PARTITION_MAX: usize = 100;
/// Pages without keys in a row. AWS sends some where many objects were just deleted.
const EMPTY_MAX: u32 = 1000;

/// A listing under way.
pub(crate) struct Pages {
    store: Arc<Store>,
    findings: Arc<Findings>,
    pager: Option<Pager>,
    /// The page that comes next; `None`: the last one has come.
    next: Option<Ask>,
    /// It was asked for.
    is_asked: bool,
    circle: Circle,
    empty: u32,
    /// Keys that an interrupted session has listed last, until one behind them comes.
    before: Option<Before>,
    keys: Keys,
    partitions: VecDeque<Partition>,
    numbered: Numbered,
    /// Objects of the partition that is not full.
    payload: Vec<u8>,
    filled: usize,
    /// The object that has the address itself as its key.
    itself: Option<Listed>,
    /// Objects that were listed, and of these the ones that are selected. An earlier session counts as one.
    listed: u64,
    selected: u64,
}

struct Before {
    shown: Vec<Vec<u8>>,
    is_seen: bool,
}

/// Finds out whether tokens go round in a circle, whatever its length: each is compared with one before, which is replaced
/// after 1, 2, 4, … tokens (R. P. Brent, "An improved Monte Carlo factorization algorithm", BIT 20, 1980).
#[derive(Default)]
struct Circle {
    token: String,
    since: u64,
    until: u64,
}

impl Circle {
    fn has(&mut self, next: &str) -> bool {
        if self.until > 0 && self.token == next {
            return true;
        }
        self.since += 1;
        if self.since > self.until {
            (self.since, self.until) = (0, (2 * self.until).max(1));
            next.clone_into(&mut self.token);
        }
        false
    }
}

/// The last keys that were listed.
#[derive(Default)]
struct Keys {
    last: VecDeque<Vec<u8>>,
    is_unordered: bool,
}

impl Keys {
    /// Notes the next key. Returns whether it is the same as the last one.
    fn push(&mut self, key: &[u8]) -> bool {
        let last = self.last.back().map_or(&b""[..], |last| last);
        let is_repeated = last == key && !self.last.is_empty();
        self.is_unordered |= key < last;
        let mut kept = if self.last.len() < WINDOW { Vec::new() } else { self.last.pop_front().unwrap_or_default() };
        kept.clear();
        kept.extend_from_slice(key);
        self.last.push_back(kept);
        is_repeated
    }

    /// The place behind them.
    fn place(&self, seq: u64) -> Place {
        match self.is_unordered {
            true => Place::unordered(seq),
            false => Place::behind(seq, &self.last.iter().map(|key| &**key).collect::<Vec<_>>()),
        }
    }
}

impl Pages {
    pub fn new(store: Arc<Store>, after: Option<Cursor>) -> Result<Pages> {
        let place = after.as_ref().map_or(Some(Place::default()), Place::of).ok_or_else(refused)?;
        // The address may be the key of an object, which is not below itself.
        let only = store.only_key().filter(|_| place.seq == 0);
        let first = match only {
            Some(key) => Ask { prefix: key.as_bytes().to_vec(), is_for_one: true, ..Ask::default() },
            None => Ask { prefix: store.prefix.clone().into_bytes(), behind: place.enter, ..Ask::default() },
        };
        Ok(Pages {
            store,
            findings: Arc::default(),
            pager: None,
            itself: None,
            listed: u64::from(place.seq > 0),
            selected: u64::from(place.seq > 0),
            next: Some(first),
            is_asked: false,
            circle: Circle::default(),
            empty: 0,
            before: Some(Before { shown: place.shown, is_seen: false }).filter(|before| !before.shown.is_empty()),
            keys: Keys::default(),
            partitions: VecDeque::new(),
            numbered: Numbered::new(place.seq, after.unwrap_or_else(|| Place::default().cursor())),
            payload: Vec::new(),
            filled: 0,
        })
    }

    /// Waits for the next page, and asks for the one behind it.
    async fn advance(&mut self, ask: Ask) -> Result<()> {
        let pager = match &mut self.pager {
            Some(pager) => pager,
            none => none.insert(Pager::start(self.store.clone(), self.findings.clone())?),
        };
        if !std::mem::replace(&mut self.is_asked, true) {
            pager.ask(ask.clone());
        }
        let page = pager.page().await;
        self.is_asked = false;
        let mut page = match page {
            // Policies may allow to list what is below a prefix, and nothing else.
            Err(error) if ask.is_for_one && error.kind() == Kind::Credentials => Page::default(),
            page => page?,
        };
        let stuck = |why: &str| {
            let why = format!("the listing does not advance: {why}");
            Err(Error::new(Kind::Listing, why).on(&self.store.shown()))
        };
        if page.next.as_ref().is_some_and(|next| self.circle.has(next)) {
            return stuck("it comes back to a page that was there before");
        }
        self.empty = if page.objects.is_empty() { self.empty + 1 } else { 0 };
        if self.empty > EMPTY_MAX {
            return stuck("there are too many pages without keys");
        }
        if ask.is_for_one {
            self.itself = page.objects.drain(..).find(|object| object.key == ask.prefix);
            self.next = Some(Ask { prefix: self.store.prefix.clone().into_bytes(), ..Ask::default() });
        } else {
            self.next = page.next.take().map(|token| Ask { token: Some(token), behind: None, ..ask });
        }
        if let Some(next) = &self.next {
            pager.ask(next.clone());
            self.is_asked = true;
        }
        if self.itself.is_some() && !page.objects.is_empty() {
            return Err(self.both());
        }
        if self.is_lost(&page) {
            self.restart();
            return Ok(());
        }
        self.take(page)
    }

    /// Cuts a page into partitions.
    fn take(&mut self, page: Page) -> Result<()> {
        let itself = self.itself.take_if(|_| self.next.is_none());
        self.listed += page.objects.len() as u64;
        for object in page.objects.iter().chain(&itself) {
            let is_repeated = self.keys.push(&object.key);
            if self.was_listed(object)? || !self.store.selects(object) {
                continue;
            }
            self.selected += 1;
            entries::push(&mut self.payload, object, is_repeated);
            self.filled += 1;
            if self.filled == PARTITION_MAX {
                self.cut();
            }
        }
        if self.next.is_none() && self.before.is_some() && self.keys.last.is_empty() {
            let why = "nothing is there any more, and objects were listed before the interruption";
            let hint = "is it the right bucket? if it was emptied on purpose, use `resume=\"restart\"`";
            return Err(Error::new(Kind::Listing, why).on(&self.store.shown()).hint(hint));
        }
        if self.next.is_none() && self.filled > 0 {
            self.cut();
        }
        Ok(())
    }

    /// Whether an interrupted session has listed this object.
    fn was_listed(&mut self, object: &Listed) -> Result<bool> {
        let Some(before) = &self.before else { return Ok(false) };
        if self.keys.is_unordered {
            return Err(refused());
        }
        let is_before = before.shown.last().is_some_and(|last| object.key <= *last);
        if !is_before {
            self.before = None;
        }
        Ok(is_before)
    }

    /// Whether nothing shows that the store continues where it was entered. Then it is listed from its start, and what an
    /// interrupted session has listed is passed over.
    fn is_lost(&mut self, page: &Page) -> bool {
        let Some(before) = &mut self.before else { return false };
        before.is_seen |= page.objects.iter().any(|object| before.shown.contains(&object.key));
        let is_past = |object: &Listed| before.shown.last().is_some_and(|last| object.key > *last);
        !before.is_seen && (self.next.is_none() || page.objects.iter().any(is_past))
    }

    fn restart(&mut self) {
        if let Some(before) = &mut self.before {
            before.is_seen = true;
        }
        // With it goes what was asked for.
        (self.pager, self.is_asked, self.keys, self.circle) = (None, false, Keys::default(), Circle::default());
        self.next = Some(Ask { prefix: self.store.prefix.clone().into_bytes(), ..Ask::default() });
    }

    fn cut(&mut self) {
        let partition = entries::partition(&self.payload);
        self.partitions.push_back(self.numbered.number(partition, |seq| self.keys.place(seq).cursor()));
        self.payload.clear();
        self.filled = 0;
    }

    /// Which of the two is meant, only the user knows.
    fn both(&self) -> Error {
        let shown = self.store.shown();
        let mut glob = shown.clone();
        let last = glob.pop().unwrap_or_default();
        let hint = format!("write {shown}/ for what is below it, or '{glob}[{last}]' for the object");
        Error::new(Kind::Config, "this is an object, and there are objects below it").on(&shown).hint(hint)
    }
}

fn refused() -> Error {
    Error::new(Kind::CursorRefused, "the store lists keys in another order than before the interruption")
        .hint("list from the start and skip what is committed: `resume=\"relist\"`")
}

impl Listing for Pages {
    fn report_to(&mut self, findings: &Arc<Findings>) {
        self.findings = findings.clone();
    }

    fn next(&mut self) -> BoxFuture<'_, Result<Option<Partition>>> {
        Box::pin(async move {
            loop {
                if let Some(partition) = self.partitions.pop_front() {
                    return Ok(Some(partition));
                }
                match self.next.clone() {
                    None => return Ok(None),
                    Some(ask) => self.advance(ask).await?,
                }
            }
        })
    }

    fn end(&mut self) -> ListingEnd {
        // An empty bucket has nothing that could match.
        let is_unmatched = self.selected == 0 && self.next.is_none() && !self.store.is_all();
        let unmatched = is_unmatched.then(|| Unmatched { pattern: self.store.shown(), is_bare: self.listed == 0 });
        let mut remarks = Vec::new();
        if self.keys.is_unordered {
            remarks.push("the store lists keys out of order, so that a resumed run lists all of them again".to_owned());
        }
        if self.store.stops_at_slashes() && self.selected > 0 && self.selected < self.listed {
            let (selected, listed) = (count(self.selected), count(self.listed));
            remarks.push(format!(
                "\"{}\" matches {selected} of {listed} keys: `*` does not match `/`, and `**/` does",
                self.store.shown()
            ));
        }
        ListingEnd { unmatched, remarks, ..ListingEnd::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_in_a_circle_are_found_and_others_are_not() {
        for (before, length) in [(0, 1), (0, 2), (5, 1), (7, 3), (100, 1000)] {
            let mut circle = Circle::default();
            let token = |at: u64| if at < before { at } else { before + (at - before) % length };
            let found = (0..10_000).find(|&at| circle.has(&token(at).to_string()));
            assert!(found.is_some_and(|at| at > before + length - 1), "{before} {length} {found:?}");
        }
        let mut circle = Circle::default();
        assert!(!(0..10_000).any(|at| circle.has(&at.to_string())));
    }
}
