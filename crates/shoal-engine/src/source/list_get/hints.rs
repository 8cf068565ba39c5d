//! What in a page, or in the head of its answer, looks as if there were more: the place of a next page, a flag, a total,
//! an error.
//!
//! Not here: what is done about it (`listing.rs`), how a page is read (`page.rs`).

use shoal_http::Head;

use super::json::{Nested, Token};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::display::escape;

/// Objects within objects that are searched, and the longest such object in bytes.
const DEPTH_MAX: usize = 8;
const NESTED_MAX: usize = 1 << 20;
/// What stands in the names of fields that say where a listing continues, in small letters and without `_` and `-`.
const NEXT: [&str; 10] =
    ["next", "token", "cursor", "marker", "continu", "truncat", "more", "scroll", "bookmark", "pitid"];
/// Fields that say so where they hold text. As numbers they say where this page is.
const NEXT_TEXT: [&str; 2] = ["after", "offset"];
/// Fields that say so where they hold an object: DynamoDB's is a key.
const NEXT_OBJECT: [&str; 2] = ["next", "lastevaluatedkey"];
/// Fields that are false on every page but the last.
const LAST: [&str; 10] = [
    "last",
    "islast",
    "lastpage",
    "islastpage",
    "complete",
    "iscomplete",
    "done",
    "isdone",
    "finished",
    "endofrecords",
];
/// Fields that say that there are names that are not on the page.
const LIMITED: [&str; 1] = ["exceededtransferlimit"];
/// Fields that say that names are missing.
const INCOMPLETE: [&str; 5] = ["incomplete", "incompleteresults", "partial", "ispartial", "timedout"];
const ERRORS: [&str; 2] = ["error", "errors"];
/// Fields that are false on a page that is an error.
const SUCCESS: [&str; 2] = ["success", "ok"];
/// Fields with the number of names of all pages.
const TOTALS: [&str; 21] = [
    "total",
    "count",
    "hits",
    "hitcount",
    "resultcount",
    "numbermatched",
    "totalfeatures",
    "matched",
    "numberoftotalresults",
    "totalcounts",
    "totalrows",
    "totalcount",
    "totalelements",
    "totalitems",
    "totalresults",
    "totalrecords",
    "totalentries",
    "totalsize",
    "totalhits",
    "numfound",
    "recordstotal",
];
/// Fields with the number of pages, and with the number of names behind this page.
const PAGES: [&str; 6] = ["totalpages", "pages", "pagecount", "lastpage", "numpages", "nbpages"];
const REMAINING: [&str; 2] = ["remaining", "remainingcount"];
/// Objects in which these fields are about the listing: elsewhere, a total may be that of anything.
const ABOUT: [&str; 9] = ["page", "pagin", "meta", "info", "summary", "result", "response", "context", "properties"];

/// Headers that say the same, in small letters.
pub(super) const LINK: &str = "link";
const NEXT_HEADERS: [&str; 8] = [
    "cmr-search-after",
    "x-next-page",
    "x-next-token",
    "x-next-cursor",
    "x-continuation-token",
    "x-ms-continuation",
    "x-ms-continuationtoken",
    "x-ms-continuation-nextpartitionkey",
];
const TOTAL_HEADERS: [&str; 5] = ["x-total-count", "x-total", "x-wp-total", "x-pagination-count", "cmr-hits"];
const PAGES_HEADERS: [&str; 2] = ["x-total-pages", "x-wp-totalpages"];
const RANGE: &str = "content-range";

/// All of them.
pub(super) fn headers<'h>() -> impl Iterator<Item = &'h str> {
    [LINK, RANGE].into_iter().chain(NEXT_HEADERS).chain(TOTAL_HEADERS).chain(PAGES_HEADERS)
}

/// A page that has as many names as a parameter of its path asks for. `names`: how many it has.
pub(super) fn full(list_path: &str, names: u64) -> Option<Hint> {
    let (_, query) = list_path.split_once('?')?;
    let is_full = |(_, value): &(&str, &str)| value.parse() == Ok(names) && names > 1;
    let (name, _) = query.split('&').filter_map(|parameter| parameter.split_once('=')).find(is_full)?;
    let what = format!("it has {names} names, as many as \"{}\" asks for", escape(name.as_bytes()));
    Some(Hint { sort: Sort::Count, what, advice: COUNTED.to_owned(), value: None })
}

/// What a hint is, the most telling first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sort {
    /// The URL of a next page.
    Url,
    /// Something that can be the marker of one.
    Marker,
    /// Pages or names are counted.
    Count,
    /// It says that there is more, and not where.
    Flag,
}

/// Something that looks as if there were more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hint {
    pub sort: Sort,
    /// What it is, as a sentence without its end.
    pub what: String,
    /// What a user can do.
    pub advice: String,
    /// The marker, if it is one.
    pub value: Option<String>,
}

/// The number of names of all pages, as one of them says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Total {
    pub names: u64,
    /// It cannot be the number of names of one page.
    pub certain: bool,
    /// Where it says so.
    pub at: String,
}

/// What a page and the head of its answer say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hints {
    best: Option<Hint>,
    /// That names are missing from the page, whatever else it says.
    pub incomplete: Option<Hint>,
    pub total: Option<Total>,
}

impl Hints {
    /// The most telling hint, for a listing that had so many names.
    pub fn best(&self, names: u64) -> Option<Hint> {
        let total = self.total.as_ref().filter(|total| total.names > names).map(|total| Hint {
            sort: Sort::Count,
            what: format!("{} says {}, and there are {names} names", total.at, total.names),
            advice: COUNTED.to_owned(),
            value: None,
        });
        self.best.clone().into_iter().chain(total).min_by_key(|hint| hint.sort)
    }

    fn push(&mut self, sort: Sort, what: String, advice: String, value: Option<String>) {
        if self.best.as_ref().is_none_or(|best| sort < best.sort) {
            self.best = Some(Hint { sort, what, advice, value });
        }
    }

    fn push_incomplete(&mut self, what: String) {
        let (advice, value) = ("list again later".to_owned(), None);
        self.incomplete.get_or_insert(Hint { sort: Sort::Flag, what, advice, value });
    }

    fn push_total(&mut self, names: u64, certain: bool, at: String) {
        if self.total.as_ref().is_none_or(|total| names > total.names) {
            self.total = Some(Total { names, certain, at });
        }
    }

    /// Looks at a field that stands beside the names, or on the way to them.
    pub fn field(&mut self, path: &str, name: &str, value: &str) {
        self.look(path, name, value, true, DEPTH_MAX);
    }

    /// `near`: fields here are about the listing.
    fn look(&mut self, path: &str, name: &str, value: &str, near: bool, depth: usize) {
        let name: String = name.trim_start_matches("@odata.").replace(['_', '-'], "").to_lowercase();
        let named = |names: &[&str]| names.contains(&&*name);
        let shown = || format!("its field \"{}\"", escape(path.as_bytes()));
        if near && value == "false" && named(&LAST) {
            return self.push(Sort::Flag, format!("{} is false", shown()), COUNTED.to_owned(), None);
        }
        let is_failure = near
            && (value == "false" && named(&SUCCESS)
                || name == "status" && matches!(value, "\"error\"" | "\"fail\"" | "\"failed\""));
        if is_failure {
            return self.push_incomplete(format!("{} is {value}", shown()));
        }
        if matches!(value, "null" | "false" | "\"\"" | "0" | "-1" | "\"false\"" | "{}" | "[]") {
            return;
        }
        if near && (named(&ERRORS) || named(&INCOMPLETE)) {
            return self.push_incomplete(format!("{} says that something is missing", shown()));
        }
        if value.starts_with(['{', '[']) {
            return self.look_into(path, &name, value, near, depth);
        }
        let digits = value.trim_matches('"');
        if near && let Ok(number) = digits.strip_suffix(".0").unwrap_or(digits).parse::<u64>() {
            let what = || format!("{} says {number}", shown());
            match () {
                () if named(&TOTALS) => {
                    return self.push_total(number, !matches!(&*name, "count" | "hits" | "matched"), shown());
                }
                () if named(&PAGES) && number > 1 || named(&REMAINING) => {
                    return self.push(Sort::Count, what(), COUNTED.to_owned(), None);
                }
                () => {}
            }
        }
        let is_text = value.starts_with('"');
        let is_place = NEXT.iter().any(|word| name.contains(word)) || is_text && named(&NEXT_TEXT);
        if !is_place && !named(&LIMITED) {
            return;
        }
        let token = serde_json::from_str::<Token>(value).ok().and_then(|token| token.0);
        let is_url = token
            .as_deref()
            .is_some_and(|text| ["http://", "https://", "/", "?"].iter().any(|start| text.starts_with(start)));
        if near && value == "true" && named(&LIMITED) || is_place && value == "true" {
            self.push(Sort::Flag, format!("{} is true", shown()), COUNTED.to_owned(), None);
        } else if is_url {
            self.push_url(path);
        } else {
            self.push_marker(path, token);
        }
    }

    fn look_into(&mut self, path: &str, name: &str, value: &str, near: bool, depth: usize) {
        let is_next = NEXT_OBJECT.contains(&name);
        if value.starts_with('[') && links_on(value) {
            let advice = "`pages=\"link\"` follows a Link header, if there is one".to_owned();
            let what = format!("its field \"{}\" looks like a link to a next page", escape(path.as_bytes()));
            return self.push(Sort::Flag, what, advice, None);
        }
        let below = depth.checked_sub(1).filter(|_| value.len() <= NESTED_MAX && value.starts_with('{'));
        let fields = below.and_then(|below| Some((below, serde_json::from_str::<Nested<'_>>(value).ok()?.0)));
        let Some((below, fields)) = fields else {
            return if is_next {
                self.push_marker(path, None)
            };
        };
        if is_next {
            let url = fields.iter().find(|(name, _)| matches!(&**name, "href" | "url"));
            return match url {
                Some((name, _)) => self.push_url(&format!("{path}.{name}")),
                None => self.push_marker(path, None),
            };
        }
        if name == "shards" {
            // Of Elasticsearch: its total is that of its parts.
            if fields.iter().any(|(field, value)| field == "failed" && value.get() != "0") {
                let path = escape(path.as_bytes());
                self.push_incomplete(format!("its field \"{path}.failed\" says that something is missing"));
            }
            return;
        }
        let near = near && ABOUT.iter().any(|word| name.contains(word));
        for (field, value) in fields {
            let path = format!("{path}.{field}");
            match near || !TOTALS.contains(&name) || field != "value" {
                true => self.look(&path, &field, value.get(), near, below),
                false => self.look(&path, "total", value.get(), true, below), // `"total": {"value": 7}`
            }
        }
    }

    fn push_url(&mut self, path: &str) {
        let path = escape(path.as_bytes());
        let advice = format!("follow it with `pages=\"url\"` and `next_field=\"{path}\"`");
        self.push(Sort::Url, format!("its field \"{path}\" looks like the URL of a next page"), advice, None);
    }

    fn push_marker(&mut self, path: &str, value: Option<String>) {
        let path = escape(path.as_bytes());
        // Of one that is no text or number, the name would not do.
        let field = if value.is_some() { &path } else { "FIELD" };
        let advice = format!(
            "name the field with the marker of the next page, `next_field=\"{field}\"`, and the parameter that takes it, \
            `marker_param`"
        );
        let sort = if value.is_some() { Sort::Marker } else { Sort::Flag };
        self.push(sort, format!("its field \"{path}\" looks like the marker of a next page"), advice, value);
    }

    /// Looks at the head of an answer.
    pub fn head(&mut self, head: &Head) {
        let text = |name: &str| head.field(name).and_then(|value| std::str::from_utf8(value).ok()).map(str::trim);
        let number = |name: &str| text(name).and_then(|value| value.parse::<u64>().ok());
        let links: Vec<Link<'_>> = links(head);
        let to = |rel: &str| links.iter().find(|link| link.is(rel)).map(|link| link.url);
        if to("next").is_some() {
            let advice = "follow it with `pages=\"link\"`".to_owned();
            self.push(Sort::Url, "its Link header names a next page".to_owned(), advice, None);
        } else if to("last").is_some() && to("prev").is_none() && to("first") != to("last") {
            let what = "its Link header names another page as the last".to_owned();
            self.push(Sort::Count, what, COUNTED.to_owned(), None);
        }
        for name in NEXT_HEADERS {
            if text(name).is_some_and(|value| !matches!(value, "" | "0" | "-1" | "null" | "false")) {
                let advice = format!(
                    "follow it with `pages=\"header\"`, `next_field=\"{name}\"`, and the parameter that takes it, \
                    `marker_param`"
                );
                self.push(
                    Sort::Marker,
                    format!("its header {name} looks like the marker of a next page"),
                    advice,
                    None,
                );
            }
        }
        for name in TOTAL_HEADERS {
            if let Some(names) = number(name) {
                self.push_total(names, true, format!("its header {name}"));
            }
        }
        let range = text(RANGE).and_then(|range| range.rsplit_once('/')?.1.trim().parse().ok());
        if let Some(names) = range {
            self.push_total(names, true, format!("its header {RANGE}"));
        }
        for name in PAGES_HEADERS {
            if let Some(pages) = number(name).filter(|&pages| pages > 1) {
                let what = format!("its header {name} says {pages}");
                self.push(Sort::Count, what, COUNTED.to_owned(), None);
            }
        }
    }
}

/// What helps where nothing says how to find the next page.
const COUNTED: &str = "if pages are counted, use `pages=\"number\"` or `pages=\"offset\"`";

/// A link of the header `Link` (RFC 8288).
pub(super) struct Link<'h> {
    pub url: &'h str,
    parameters: &'h str,
}

impl Link<'_> {
    pub fn is(&self, wanted: &str) -> bool {
        let mut quoted = false;
        let parameters = self.parameters.split(|letter| is_outside(letter, ';', &mut quoted));
        parameters.filter_map(|parameter| parameter.split_once('=')).any(|(name, value)| {
            let mut rels = value.trim().trim_matches('"').split_ascii_whitespace();
            name.trim().eq_ignore_ascii_case("rel") && rels.any(|rel| rel.eq_ignore_ascii_case(wanted))
        })
    }
}

/// The links of all fields `Link`.
pub(super) fn links(head: &Head) -> Vec<Link<'_>> {
    let texts = head.fields(LINK).filter_map(|value| std::str::from_utf8(value).ok());
    texts.flat_map(links_of).collect()
}

fn links_of(mut text: &str) -> Vec<Link<'_>> {
    let mut links = Vec::new();
    while let Some((url, rest)) = text.split_once('<').and_then(|(_, rest)| rest.split_once('>')) {
        let mut quoted = false;
        let end = rest.find(|letter| is_outside(letter, ',', &mut quoted)).unwrap_or(rest.len());
        links.push(Link { url: url.trim(), parameters: &rest[..end] });
        text = &rest[end..];
    }
    links
}

/// Whether this letter is the separator, and is not quoted.
fn is_outside(letter: char, separator: char, quoted: &mut bool) -> bool {
    *quoted ^= letter == '"';
    letter == separator && !*quoted
}

/// Whether an array of links has one to the next page: `[{"rel": "next", "href": …}]`.
fn links_on(array: &str) -> bool {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Rel {
        One(String),
        Several(Vec<String>),
    }
    #[derive(Deserialize)]
    struct Link {
        rel: Rel,
    }
    let links: Vec<&RawValue> = match array.len() <= NESTED_MAX {
        true => serde_json::from_str(array).unwrap_or_default(),
        false => Vec::new(),
    };
    let mut rels = links.iter().filter_map(|link| serde_json::from_str::<Link>(link.get()).ok()).map(|link| link.rel);
    rels.any(|rel| match rel {
        Rel::One(rel) => rel == "next",
        Rel::Several(rels) => rels.iter().any(|rel| rel == "next"),
    })
}
