//! Pages that shoal counts: their numbers or offsets, and where they end.
//!
//! Only pages without names are the end, two in a row: one in the middle may be empty by a defect, or because the service
//! filters what is on it. A total proves nothing: while the pages are listed, objects come and go, and many services count
//! at most so many. So pages behind the last one are requested too, and some services answer 404 to that, or send a page
//! again.

use super::PageForm;
use super::cut::Encoded;
use super::hints::Total;

/// Pages without names in a row that are passed over.
const EMPTY_MAX: u64 = 1;

/// Pages that are counted, as they come.
pub(super) struct Counted {
    form: PageForm,
    /// The number or offset of the first page, if the user has said it.
    first: Option<u64>,
    /// The sum of the names of the first page, and how many they are.
    begin: Option<(u128, u64)>,
    last: u128,
    pages: u64,
    /// Entries of all pages: an entry may have several names.
    seen: u64,
    /// Pages without names in a row; and entries that all such pages before others would have had.
    empty: u64,
    passed_over: u64,
    /// A page has come that was requested with a number or an offset, so the service knows the parameter.
    is_known: bool,
    /// The last page had fewer names than the first.
    is_short: bool,
    /// The first page came again for the number 1, so pages are numbered from there.
    begins_at_one: bool,
    total: Option<Total>,
}

/// What follows a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Follows {
    /// The page with this number or offset.
    Page(String),
    /// The same; this page was the first one again, so it is not listed again.
    PageInstead(String),
    /// Nothing: this page is behind the last one.
    Nothing,
}

impl Counted {
    pub fn new(form: PageForm, first: Option<u64>) -> Counted {
        let (begin, total, is_known, is_short, begins_at_one) = (None, None, false, false, false);
        let (last, pages, seen, empty, passed_over) = (0, 0, 0, 0, 0);
        Counted { form, first, begin, last, pages, seen, empty, passed_over, is_known, is_short, begins_at_one, total }
    }

    /// What the first page is requested with.
    pub fn first(&self) -> Option<String> {
        self.first.map(|first| first.to_string())
    }

    /// A page has come that was requested with `token`.
    ///
    /// # Errors
    /// Why the listing cannot continue.
    pub fn page(
        &mut self,
        token: Option<&str>,
        names: &Encoded,
        entries: u64,
        total: Option<&Total>,
    ) -> Result<Follows, String> {
        self.is_known |= token.is_some();
        let Some(sum) = names.sum() else {
            self.empty += 1;
            if self.empty > EMPTY_MAX || self.begin.is_none() {
                return Ok(Follows::Nothing);
            }
            self.passed_over += self.begin.map_or(0, |(_, entries)| entries);
            return Ok(Follows::Page(self.next(token)));
        };
        self.empty = 0;
        let (begin, first_count) = *self.begin.get_or_insert((sum, entries));
        if let Some(total) = total {
            let certain = total.certain || total.names > first_count;
            self.total = Some(Total { certain, ..total.clone() });
        }
        if self.pages > 0 && (sum == begin || sum == self.last) {
            if self.form == PageForm::Number && self.first.is_none() && self.pages == 1 && token == Some("1") {
                self.begins_at_one = true;
                return Ok(Follows::PageInstead("2".to_owned()));
            }
            if self.total.as_ref().is_some_and(|total| total.certain && total.names <= self.seen) {
                return Ok(Follows::Nothing);
            }
            return Err("this page has the same names as an earlier one".to_owned());
        }
        (self.last, self.pages, self.seen) = (sum, self.pages + 1, self.seen + entries);
        self.is_short = entries < first_count;
        Ok(Follows::Page(self.next(token)))
    }

    /// What is behind the page that was requested with `token`.
    fn next(&self, token: Option<&str>) -> String {
        let number = match self.form {
            PageForm::Number => token.and_then(|token| token.parse::<u64>().ok()).map_or(1, |number| number + 1),
            _ => self.first.unwrap_or(0) + self.seen + self.passed_over,
        };
        number.to_string()
    }

    /// The service says for certain that there are more than have come.
    pub fn is_total_ahead(&self) -> bool {
        self.total.as_ref().is_some_and(|total| total.certain && total.names > self.seen)
    }

    /// The last page had no names.
    pub fn was_empty(&self) -> bool {
        self.empty > 0
    }

    /// No other page than the first had names.
    pub fn had_one_page(&self) -> bool {
        self.pages <= 1
    }

    /// Whether an answer means that there is no such page any more: 404 does, unless a total says otherwise, and other
    /// refusals where a total was reached, and behind a page without names. Not before the service has shown that it knows
    /// the parameter: it may refuse that.
    pub fn is_missing(&self, status: u16) -> bool {
        let total = self.total.as_ref().filter(|total| total.names <= self.seen);
        let is_end = match status {
            204 | 400..=499 if self.is_total_ahead() => false,
            204 | 400 | 404 | 410 | 416 | 422 if self.empty > 0 => true,
            404 => total.is_some() || self.is_short || self.begins_at_one && self.pages == 1,
            204 | 400 | 410 | 416 | 422 => total.is_some_and(|total| total.certain),
            _ => false,
        };
        self.pages > 0 && self.is_known && is_end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists what `page` answers to each number or offset (`None`: to a request without one); the names, or why not.
    fn list(
        form: PageForm,
        first: Option<u64>,
        page: impl Fn(Option<u64>) -> Option<Vec<u32>>,
        total: Option<&Total>,
    ) -> Result<Vec<u32>, String> {
        let mut counted = Counted::new(form, first);
        let (mut token, mut found) = (counted.first(), Vec::new());
        for _ in 0..1000 {
            let Some(names) = page(token.as_deref().map(|token| token.parse().unwrap())) else {
                return if counted.is_missing(404) { Ok(found) } else { Err("404".to_owned()) };
            };
            let mut encoded = Encoded::default();
            for name in &names {
                encoded.push(name.to_string().as_bytes(), false);
                encoded.sum += u128::from(*name) + 1;
            }
            token = Some(match counted.page(token.as_deref(), &encoded, names.len() as u64, total)? {
                Follows::Page(next) => {
                    found.extend(names);
                    next
                }
                Follows::PageInstead(next) => next,
                Follows::Nothing => return Ok(found),
            });
        }
        panic!("it does not end");
    }

    /// A service of `objects` in pages of 10: what it answers to a page from 0 on.
    fn cut(objects: u32, page: u64) -> Vec<u32> {
        (0..objects).skip(page as usize * 10).take(10).collect()
    }

    fn total(names: u64, certain: bool) -> Total {
        Total { names, certain, ..Total::default() }
    }

    #[test]
    fn numbered_pages_are_listed_whether_they_begin_at_0_or_1() {
        for objects in [0, 1, 9, 10, 11, 20, 95] {
            let all = Ok((0..objects).collect::<Vec<_>>());
            let from_0 = |number: Option<u64>| Some(cut(objects, number.unwrap_or(0)));
            let from_1 = |number: Option<u64>| Some(cut(objects, number.unwrap_or(1).saturating_sub(1)));
            assert_eq!(list(PageForm::Number, None, from_0, None), all);
            assert_eq!(list(PageForm::Number, None, from_1, None), all);
            assert_eq!(list(PageForm::Number, Some(0), from_0, None), all);
            assert_eq!(list(PageForm::Number, Some(1), from_1, None), all);
            let offset = |offset: Option<u64>| Some((0..objects).skip(offset.unwrap_or(0) as usize).take(10).collect());
            assert_eq!(list(PageForm::Offset, None, offset, None), all);
        }
    }

    #[test]
    fn offsets_that_begin_at_1_lose_nothing() {
        let page = |at: Option<u64>| Some((0..95).skip(at.unwrap_or(1).saturating_sub(1) as usize).take(10).collect());
        assert_eq!(list(PageForm::Offset, Some(1), page, None), Ok((0..95).collect()));
        let mut found = list(PageForm::Offset, None, page, Some(&total(95, true))).unwrap();
        found.dedup();
        assert_eq!(found, (0..95).collect::<Vec<_>>());
    }

    #[test]
    fn a_short_page_does_not_end_the_pages() {
        let page =
            |number: Option<u64>| Some(cut(95, number.unwrap_or(0)).into_iter().filter(|n| n % 3 == 0).collect());
        assert_eq!(list(PageForm::Number, None, page, None).unwrap().len(), 32);
    }

    #[test]
    fn an_answer_404_behind_the_last_page_ends_them_and_one_before_it_does_not() {
        let until = |last: u64, objects| {
            move |number: Option<u64>| {
                let number = number.unwrap_or(1);
                (number <= last).then(|| cut(objects, number.saturating_sub(1)))
            }
        };
        assert_eq!(list(PageForm::Number, None, until(1, 10), None).unwrap().len(), 10);
        assert_eq!(list(PageForm::Number, Some(1), until(10, 95), None).unwrap().len(), 95, "the last one was short");
        assert_eq!(list(PageForm::Number, None, until(2, 20), Some(&total(20, false))).unwrap().len(), 20);
        assert_eq!(list(PageForm::Number, None, until(2, 40), None), Err("404".to_owned()));
        assert_eq!(list(PageForm::Number, None, until(2, 40), Some(&total(40, true))), Err("404".to_owned()));
    }

    #[test]
    fn a_service_that_refuses_the_parameter_ends_nothing() {
        let refuses = |number: Option<u64>| number.is_none().then(|| cut(10, 0));
        for form in [PageForm::Number, PageForm::Offset] {
            for total in [None, Some(total(10, false)), Some(total(10, true))] {
                assert_eq!(list(form, None, refuses, total.as_ref()), Err("404".to_owned()));
            }
        }
        let mut counted = Counted::new(PageForm::Number, Some(1));
        let mut names = Encoded::default();
        names.push(b"a", false);
        counted.page(Some("1"), &names, 1, Some(&total(1, false))).unwrap();
        assert!(counted.is_missing(404) && !counted.is_missing(400), "it may be the number of this page");
    }

    #[test]
    fn an_empty_page_in_the_middle_ends_nothing() {
        let hole = |at: u64| {
            move |number: Option<u64>| {
                let number = number.unwrap_or(0);
                Some(if number == at { Vec::new() } else { cut(95, number) })
            }
        };
        for at in [1, 5, 8] {
            let wanted = (0..95).filter(|n| u64::from(n / 10) != at).collect::<Vec<_>>();
            assert_eq!(list(PageForm::Number, None, hole(at), None), Ok(wanted.clone()));
            assert_eq!(list(PageForm::Number, Some(0), hole(at), Some(&total(95, true))), Ok(wanted));
        }
        let mut counted = Counted::new(PageForm::Number, Some(1));
        let mut names = Encoded::default();
        names.push(b"a", false);
        names.sum = 1;
        counted.page(Some("1"), &names, 1, Some(&total(30, true))).unwrap();
        counted.page(Some("2"), &Encoded::default(), 0, None).unwrap();
        assert!(
            [204, 400, 404].into_iter().all(|status| !counted.is_missing(status)),
            "the total says that there are more"
        );
        let ends = |number: Option<u64>| (number.unwrap_or(0) <= 10).then(|| cut(95, number.unwrap_or(0)));
        assert_eq!(list(PageForm::Number, None, ends, None).unwrap().len(), 95, "404 behind an empty page");
    }

    #[test]
    fn offsets_behind_an_empty_page_in_the_middle_are_not_those_before_it() {
        let page = |at: Option<u64>| {
            let at = at.unwrap_or(0) as usize;
            Some(if at == 30 { Vec::new() } else { (0..95).skip(at).take(10).collect() })
        };
        let found = list(PageForm::Offset, None, page, Some(&total(95, true))).unwrap();
        assert_eq!(found, (0..30).chain(40..95).collect::<Vec<_>>());
    }

    #[test]
    fn a_service_that_does_not_know_the_parameter_ends_nothing_silently() {
        let always = |_: Option<u64>| Some(cut(10, 0));
        for form in [PageForm::Number, PageForm::Offset] {
            assert!(list(form, None, always, None).is_err());
            assert!(list(form, None, always, Some(&total(10, false))).is_err(), "it may be the number of this page");
            assert!(list(form, None, always, Some(&total(30, true))).is_err());
            assert_eq!(list(form, None, always, Some(&total(10, true))).unwrap().len(), 10);
        }
    }

    #[test]
    fn the_last_page_again_ends_the_pages_if_the_total_was_reached() {
        let page = |number: Option<u64>| Some(cut(95, number.unwrap_or(1).clamp(1, 10) - 1));
        assert_eq!(list(PageForm::Number, None, page, Some(&total(95, false))).unwrap().len(), 95);
        assert!(list(PageForm::Number, None, page, Some(&total(96, true))).is_err());
        assert!(list(PageForm::Number, None, page, None).is_err());
    }
}
