//! How far everything is committed: the part of the listing behind which nothing is left to do.
//!
//! Partitions are committed in any order. The frontier moves over a committed run from the front, and only from page
//! to page (partitions that share `after`): a listing can continue only at a page, and the keys of a page must stay in
//! the journal until all of it is done, so that a page that changed meanwhile is noticed. The last page is never folded.

use std::collections::VecDeque;

use crate::journal::Fold;
use crate::partition::{Cursor, Key, Partition};

struct Row {
    key: Key,
    after: Cursor,
    next: Option<Cursor>,
    committed: bool,
}

/// The window of listed partitions from the frontier on.
pub(crate) struct Frontier {
    /// `seq` of `rows[0]`.
    first: u64,
    chain: Key,
    rows: VecDeque<Row>,
    committed: u64,
}

impl Frontier {
    pub fn new(first: u64, chain: Key) -> Frontier {
        Frontier { first, chain, rows: VecDeque::new(), committed: 0 }
    }

    /// A partition was listed, in order. `committed`: the journal already holds it.
    pub fn listed(&mut self, partition: &Partition, committed: bool) {
        debug_assert_eq!(partition.seq, self.first + self.rows.len() as u64);
        self.committed += u64::from(committed);
        let Partition { key, after, next, .. } = partition.clone();
        self.rows.push_back(Row { key, after, next, committed });
    }

    /// A partition was committed.
    pub fn commit(&mut self, seq: u64) {
        if let Some(row) = seq.checked_sub(self.first).and_then(|at| self.rows.get_mut(at as usize)) {
            self.committed += u64::from(!row.committed);
            row.committed = true;
        }
    }

    /// Whether a partition is committed.
    pub fn is_committed(&self, seq: u64) -> bool {
        match seq.checked_sub(self.first) {
            None => true,
            Some(at) => self.rows.get(at as usize).is_some_and(|row| row.committed),
        }
    }

    /// Moves over every page that is committed whole; what the journal may fold, if anything.
    pub fn advance(&mut self) -> Option<Fold> {
        let run = self.rows.iter().take_while(|row| row.committed).count();
        let whole = (1..=run).rev().find(|&count| self.ends_page(count - 1))?;
        let mut last = None;
        for row in self.rows.drain(..whole) {
            self.chain = self.chain.chain(row.key);
            last = row.next;
        }
        self.first += whole as u64;
        self.committed -= whole as u64;
        let cursor = self.rows.front().map(|next| next.after.clone()).or(last)?;
        Some(Fold { frontier: self.first, cursor, chain: self.chain })
    }

    /// Whether row `at` is the last of its page: it says so, or a later page has begun. The last page of all stays, for a
    /// resumed listing begins with it, and more may be in it by then.
    fn ends_page(&self, at: usize) -> bool {
        let row = &self.rows[at];
        row.next.is_some() || self.rows.get(at + 1).is_some_and(|later| later.after != row.after)
    }

    /// Partitions listed and not behind the frontier.
    pub fn window(&self) -> usize {
        self.rows.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(seq: u64, page: u8) -> Partition {
        let after = Cursor(vec![page].into());
        Partition { seq, key: Key(u128::from(seq) + 1), after, next: None, payload: Vec::new().into(), len: Some(1) }
    }

    #[test]
    fn the_frontier_moves_by_whole_pages_in_order() {
        let mut frontier = Frontier::new(0, Key::default());
        for (seq, page) in [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2)] {
            frontier.listed(&partition(seq, page), false);
        }
        for seq in [1, 2, 3, 4] {
            frontier.commit(seq);
            assert!(frontier.advance().is_none() && frontier.is_committed(seq) && !frontier.is_committed(0));
        }
        frontier.commit(0);
        let fold = frontier.advance().unwrap();
        assert_eq!((fold.frontier, fold.cursor), (4, Cursor(vec![2].into())));
        let chain = [1, 2, 3, 4].into_iter().fold(Key::default(), |chain, key| chain.chain(Key(key)));
        assert_eq!(fold.chain, chain);
        assert!(frontier.advance().is_none());
        assert!((0..5).all(|seq| frontier.is_committed(seq)) && !frontier.is_committed(5));
        assert_eq!(frontier.window(), 1); // of the last page nothing is folded: it may have grown when it is listed again
    }

    #[test]
    fn a_page_that_names_the_next_is_folded_before_the_next_is_there() {
        let mut frontier = Frontier::new(0, Key::default());
        frontier.listed(&partition(0, 0), true);
        let next = Some(Cursor(vec![1].into()));
        frontier.listed(&Partition { next: next.clone(), ..partition(1, 0) }, true);
        let fold = frontier.advance().unwrap();
        assert_eq!((fold.frontier, Some(fold.cursor)), (2, next));
    }
}
