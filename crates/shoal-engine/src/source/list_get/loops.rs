//! Finds listings that never end, in constant memory. Not here: names that come twice, which are no fault of a listing.
//!
//! Four signs, each of which no listing shows that comes to an end:
//! - a page names **itself** as the next;
//! - a **token** comes back: it leads to where it led before, whatever the page holds (an answer may differ in a time or
//!   in the order of its names);
//! - the same **names** come again and again under ever new tokens. Once is no sign: a listing that repeats a name, one
//!   name a page, has two equal pages;
//! - **nothing** comes, page after page. A few empty pages are lawful: a service may filter what it has walked.

use std::borrow::Cow;

use xxhash_rust::xxh3::xxh3_128;

/// Times that a page comes back before the listing counts as a loop.
const REPEATS_MAX: u32 = 8;
/// Empty pages in a row: services that skip deleted entries send some; at one millisecond each this is a second.
const EMPTY_MAX: u32 = 1000;

/// What has been seen of a chain of pages.
#[derive(Default)]
pub(super) struct Loops {
    tokens: Brent,
    names: Brent,
    empty: u32,
}

impl Loops {
    /// A page has come that was asked for with `token` and names `next`. Why it is no use to go on, if it is not.
    pub fn page(&mut self, token: Option<&str>, names: &[Cow<'_, str>], next: &str) -> Option<String> {
        if token == Some(next) {
            return Some("the listing loops: the page names itself as the next, again and again".to_owned());
        }
        if self.tokens.step(xxh3_128(next.as_bytes())) > 0 {
            return Some(
                "the listing loops: the page that this one names as the next has been there before".to_owned(),
            );
        }
        if names.is_empty() {
            self.empty += 1;
            return (self.empty >= EMPTY_MAX)
                .then(|| format!("the listing does not end: {EMPTY_MAX} pages in a row hold no name"));
        }
        self.empty = 0;
        // A sum, so that the order of the names does not count.
        let sum = names.iter().fold(0u128, |sum, name| sum.wrapping_add(xxh3_128(name.as_bytes())));
        let repeats = self.names.step(sum);
        (repeats >= REPEATS_MAX)
            .then(|| format!("the listing loops: the names on this page have come {repeats} times before"))
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
    fn found<'a>(most: u64, page: impl Fn(u64) -> (Vec<&'a str>, String)) -> Option<u64> {
        let (mut loops, mut token) = (Loops::default(), None);
        (0..most).find(|&at| {
            let (names, next) = page(at);
            let names: Vec<_> = names.into_iter().map(Cow::Borrowed).collect();
            let why = loops.page(token.as_deref(), &names, &next);
            token = Some(next);
            why.is_some()
        })
    }

    #[test]
    fn a_ring_of_tokens_is_found_whatever_the_pages_hold() {
        for (lead, length) in [(0, 1), (0, 2), (5, 1), (100, 37), (3, 1000)] {
            let token = |at| if at < lead { at } else { lead + (at - lead) % length };
            let at = found(10_000, |at| (vec![], token(at).to_string())).expect("found");
            assert!(at <= 3 * (lead + length) + 3, "{lead} {length}: {at}");
        }
        let names: Vec<String> = (0..100).map(|at| at.to_string()).collect();
        assert_eq!(found(100, |at| (vec![names[at as usize].as_str()], "again".to_owned())), Some(1));
    }

    #[test]
    fn a_ring_of_pages_is_found_under_ever_new_tokens_and_in_any_order() {
        let names: Vec<String> = (0..200).map(|at| at.to_string()).collect();
        for (lead, length) in [(0, 1), (5, 1), (10, 3), (20, 100)] {
            let page = |at: u64| {
                let on = (if at < lead { at } else { lead + (at - lead) % length }) as usize;
                let (one, two) = (names[on].as_str(), "x");
                (if at % 2 == 0 { vec![one, two] } else { vec![two, one] }, format!("token-{at}"))
            };
            let at = found(100_000, page).expect("found");
            assert!(at <= 3 * lead + 32 * length, "{lead} {length}: {at}");
        }
    }

    #[test]
    fn empty_pages_for_ever_are_found_and_a_few_now_and_then_are_not() {
        assert_eq!(found(10_000, |at| (vec![], at.to_string())), Some(999));
        let names: Vec<String> = (0..10_000).map(|at| at.to_string()).collect();
        let now_and_then =
            |at: u64| (if at % 900 == 0 { vec![names[at as usize].as_str()] } else { vec![] }, at.to_string());
        assert_eq!(found(10_000, now_and_then), None);
    }

    #[test]
    fn a_chain_is_no_loop_although_a_name_comes_twice() {
        let names: Vec<String> = (0..100_000).map(|at| (at / 2).to_string()).collect();
        assert_eq!(found(100_000, |at| (vec![names[at as usize].as_str()], at.to_string())), None);
    }
}
