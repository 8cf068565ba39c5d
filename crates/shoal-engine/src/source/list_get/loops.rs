//! Finds listings that never end, in constant memory. Not here: names that come twice, which are no fault of a listing.
//!
//! Four signs, each of which no listing shows that comes to an end:
//! - a page names **itself** as the next;
//! - a **token** comes back: it leads to where it led before, whatever the page holds (an answer may differ in a time or
//!   in the order of its names);
//! - the same **names** come again and again under ever new tokens, in whatever order. Once is no sign: a listing that
//!   repeats a name, one name a page, has two equal pages;
//! - **nothing** comes, page after page. A few empty pages are lawful: a service may filter what it has walked.

use xxhash_rust::xxh3::xxh3_128;

/// Times that a page comes back before the listing counts as a loop.
const REPEATS_MAX: u32 = 3;
/// Empty pages in a row: a service that skips deleted entries may send many; at one millisecond each this is 10 s.
const EMPTY_MAX: u32 = 10_000;

/// What has been seen of a chain of pages.
#[derive(Default)]
pub(super) struct Loops {
    tokens: Brent,
    names: Brent,
    empty: u32,
}

impl Loops {
    /// A page has come that was asked for with `token`, holds names that add up to `sum`, and names `next` as the next
    /// one. Why it is no use to go on, if it is not.
    pub fn page(&mut self, token: Option<&str>, sum: Option<u128>, next: &str) -> Option<String> {
        if token == Some(next) {
            return Some("the listing loops: the page names itself as the next page".to_owned());
        }
        if self.tokens.step(xxh3_128(next.as_bytes())) > 0 {
            return Some("the listing loops: the marker of the next page was used before".to_owned());
        }
        let Some(sum) = sum else {
            self.empty += 1;
            return (self.empty >= EMPTY_MAX)
                .then(|| format!("the listing does not end: {EMPTY_MAX} empty pages in a row"));
        };
        self.empty = 0;
        (self.names.step(sum) >= REPEATS_MAX)
            .then(|| "the listing loops: the same names repeat under new markers".to_owned())
    }
}

/// Brent's algorithm (1980): finds that a sequence has begun to repeat itself, in constant memory. One value is marked
/// and compared with the following ones, for twice as many steps each time; so once the marked one lies on the loop and
/// the steps go around it, it comes back, after at most three times the steps to the end of the first loop.
#[derive(Default)]
struct Brent {
    mark: Option<u128>,
    steps: u64,
    power: u64,
    repeats: u32,
}

impl Brent {
    /// How often `value` has come since it was marked; 0 when it is not the marked one.
    fn step(&mut self, value: u128) -> u32 {
        let repeats = if self.mark == Some(value) { self.repeats + 1 } else { 0 };
        self.repeats = self.repeats.max(repeats);
        self.steps += 1;
        if self.steps >= self.power {
            (self.mark, self.steps, self.repeats) = (Some(value), 0, 0);
            self.power = (self.power * 2).max(1);
        }
        repeats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page at which a chain of up to `most` is found to be a loop.
    fn found(most: u64, page: impl Fn(u64) -> (Option<u128>, String)) -> Option<u64> {
        let (mut loops, mut token) = (Loops::default(), None);
        (0..most).find(|&at| {
            let (sum, next) = page(at);
            let why = loops.page(token.as_deref(), sum, &next);
            token = Some(next);
            why.is_some()
        })
    }

    fn ring(lead: u64, length: u64, at: u64) -> u64 {
        if at < lead { at } else { lead + (at - lead) % length }
    }

    #[test]
    fn a_ring_of_tokens_is_found_whatever_the_pages_hold() {
        for (lead, length) in [(0, 1), (0, 2), (5, 1), (100, 37), (3, 1000)] {
            for sum in [|_| None, |at| Some(u128::from(at))] {
                let at = found(10_000, |at| (sum(at), ring(lead, length, at).to_string())).expect("found");
                assert!(at <= 3 * (lead + length) + 3, "{lead} {length}: {at}");
            }
        }
        assert_eq!(found(100, |at| (Some(u128::from(at)), "again".to_owned())), Some(1));
    }

    #[test]
    fn a_ring_of_pages_is_found_under_ever_new_tokens() {
        for (lead, length) in [(0, 1), (5, 1), (10, 3), (20, 100), (1000, 7)] {
            let at = found(100_000, |at| (Some(u128::from(ring(lead, length, at))), at.to_string())).expect("found");
            assert!(at <= 3 * lead + 10 * length, "{lead} {length}: {at}");
        }
    }

    #[test]
    fn empty_pages_for_ever_are_found_and_a_few_now_and_then_are_not() {
        assert_eq!(found(100_000, |at| (None, at.to_string())), Some(u64::from(EMPTY_MAX) - 1));
        let now_and_then = |at: u64| (at.is_multiple_of(9000).then_some(u128::from(at)), at.to_string());
        assert_eq!(found(100_000, now_and_then), None);
    }

    #[test]
    fn a_chain_is_no_loop_although_each_page_comes_twice() {
        assert_eq!(found(100_000, |at| (Some(u128::from(at / 2)), at.to_string())), None);
    }
}
