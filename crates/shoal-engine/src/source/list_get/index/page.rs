//! One directory page: the files and directories that it links to, and whether it is such a page at all.
//!
//! A page counts as the index of a directory if it says so in its title or a heading, if it has the links by which servers
//! sort an index, or if most links to what is below it show the names of what they lead to. A login page, a page that says
//! "not found" with status 200, and a directory's own `index.html` show none of these. A heading alone is not enough for an
//! empty directory, because an error or a script may be below it: the page must also link to itself or to the directory
//! above, or be exactly what servers send that have no such link.
//!
//! Not here: where a link leads (`link.rs`), which page is read next (`walk.rs`), what becomes of the names (`../cut.rs`).

use std::collections::HashSet;
use std::convert::Infallible;

use html5gum::emitters::callback::{CallbackEmitter, CallbackEvent};
use html5gum::{Span, Tokenizer};
use shoal_http::{Address, RedirectTarget, resolve};
use xxhash_rust::xxh3::xxh3_128;

use super::super::cut::Encoded;
use super::link::{Link, Place, cleaned, follow};
use crate::display::{count, escape};
use crate::error::{Error, Kind, Result};
use crate::source::Unlisted;

/// How the title or a heading of an index begins: Apache, lighttpd, nginx and most others; Python, Tomcat, rclone; Express;
/// Jetty.
const HEADINGS: [&str; 4] = ["index of", "directory listing", "listing directory", "directory:"];
/// How the links begin that sort an index: Apache; Caddy.
const SORTS: [&str; 2] = ["?c=", "?sort="];
/// The headings of empty directories without any link: Python; Apache in the root.
const EMPTY: [&str; 2] = ["directory listing for /", "index of /"];
/// Longest text of a link that is compared with the name.
const TEXT_MAX: usize = 4096;
/// Links of one page among which a second one to the same place is looked for. Beyond, the destination finds it.
const SEEN_MAX: usize = 1 << 20;

/// What a page links to.
#[derive(Default)]
pub(super) struct Page {
    /// Its files, and what stands for links that cannot be followed exactly.
    pub names: Encoded,
    /// Names of its directories, each with a slash at its end.
    pub directories: Vec<Box<[u8]>>,
    /// The same for the same names below the page, in any order.
    pub sum: u128,
    pub passed_over: PassedOver,
}

/// How many links were not followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PassedOver {
    /// With a query, such as those that sort the index.
    pub queries: u64,
    /// To other hosts, to what is outside the start directory, or not below the page.
    pub elsewhere: u64,
}

/// Reads a page. `is_unverified`: its length is not known.
///
/// # Errors
/// [`Kind::Listing`]: it is not the index of a directory. [`Kind::ShortBody`]: it may be cut off.
pub(super) fn read(html: &[u8], place: &Place<'_>, is_unverified: bool) -> Result<Page> {
    let mut reader = Reader::new(place);
    let mut emitter = CallbackEmitter::new(|event: CallbackEvent<'_>, _: Span<()>| -> Option<Infallible> {
        reader.take(&event);
        None
    });
    emitter.naively_switch_states(true);
    Tokenizer::new_with_emitter(html, emitter).for_each(drop);
    if (is_unverified || reader.has_begin) && !reader.has_end {
        return Err(Error::new(Kind::ShortBody, "its page has no end: it may be cut off"));
    }
    reader.finish()
}

/// What came instead of an index.
pub(super) fn no_index() -> Error {
    let why = "what came is not the index of a directory; it may be a login page, or a page that was put there instead of \
               the index";
    Error::new(Kind::Listing, why)
}

/// A tag that is being read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tag {
    Link,
    Base,
    Input,
    Heading,
    Other,
}

struct Reader<'a> {
    place: &'a Place<'a>,
    page: Page,
    seen: HashSet<u128>,
    /// What links are relative to: the page, or what it names instead.
    base: (Address, Vec<u8>),
    has_base: bool,
    tag: Tag,
    attribute: Vec<u8>,
    /// The first `href` of the tag.
    href: Option<Vec<u8>>,
    /// The last part of the name that the open link leads to, and the text in it so far.
    open: Option<(Vec<u8>, Vec<u8>)>,
    /// The open link has a query: the hash of the name, and the link.
    open_query: Option<(u128, Vec<u8>)>,
    /// Such links that show a text.
    queries: Vec<(u128, Vec<u8>)>,
    /// Links to what is below the page, and those that show its name.
    below: u64,
    named: u64,
    has_heading: bool,
    has_sorts: bool,
    has_password: bool,
    /// A link to the page, or to the directory above.
    has_place: bool,
    /// The tags `html` that begin and end a page.
    has_begin: bool,
    has_end: bool,
    /// What an empty directory without such a link has, and what it does not have.
    has_empty_heading: bool,
    has_more: bool,
}

impl<'a> Reader<'a> {
    fn new(place: &'a Place<'a>) -> Reader<'a> {
        Reader {
            place,
            page: Page::default(),
            seen: HashSet::new(),
            base: (place.address.clone(), place.target.to_vec()),
            has_base: false,
            tag: Tag::Other,
            attribute: Vec::new(),
            href: None,
            open: None,
            open_query: None,
            queries: Vec::new(),
            below: 0,
            named: 0,
            has_heading: false,
            has_sorts: false,
            has_password: false,
            has_place: false,
            has_begin: false,
            has_end: false,
            has_empty_heading: false,
            has_more: false,
        }
    }

    fn finish(mut self) -> Result<Page> {
        self.close_link();
        let seen = &self.seen;
        let known = self.queries.len();
        self.queries.retain(|(name, _)| !seen.contains(name));
        self.page.passed_over.queries += (known - self.queries.len()) as u64;
        if let Some((_, first)) = self.queries.first() {
            let others = self.queries.len() as u64 - 1;
            let others =
                if others > 0 { format!(", and so have {} more on its page", count(others)) } else { String::new() };
            self.inexact(&first.clone(), &format!("it has a query{others}"));
        }
        let Page { names, directories, passed_over, .. } = &self.page;
        let is_empty = names.bytes.is_empty() && directories.is_empty();
        let has_place = !is_empty || self.has_place || self.has_empty_heading && self.has_end && !self.has_more;
        let has_names = self.below > 0 && self.named * 2 >= self.below;
        if !self.has_password && (self.has_heading && has_place || self.has_sorts || has_names) {
            return Ok(self.page);
        }
        let elsewhere = passed_over.elsewhere;
        if self.has_heading && is_empty && elsewhere > 0 {
            let links = if elsewhere == 1 { "link leads" } else { "links lead" };
            let why = format!("nothing on its page is below it: {} {links} to other places", count(elsewhere));
            return Err(
                Error::new(Kind::Listing, why).hint("is the URL the one that the links of the page begin with?")
            );
        }
        Err(no_index())
    }

    /// Something that cannot be requested exactly will be a failure.
    fn inexact(&mut self, href: &[u8], why: &str) {
        let shown = format!("{}{}", escape(self.place.directory), escape(href));
        self.page.names.push_unlisted(Unlisted::Itself, shown.as_bytes(), why);
    }

    fn take(&mut self, event: &CallbackEvent<'_>) {
        match event {
            CallbackEvent::OpenStartTag { name } => {
                self.href = None;
                self.tag = match *name {
                    b"a" => Tag::Link,
                    b"base" => Tag::Base,
                    b"input" => Tag::Input,
                    b"title" | b"h1" | b"h2" => Tag::Heading,
                    _ => Tag::Other,
                };
                self.has_begin |= *name == b"html";
                self.has_more |= self.tag == Tag::Link || *name == b"script";
            }
            CallbackEvent::AttributeName { name } => self.attribute = name.to_vec(),
            CallbackEvent::AttributeValue { value } => match (self.tag, &*self.attribute) {
                (Tag::Link | Tag::Base, b"href") if self.href.is_none() => self.href = Some(value.to_vec()),
                (Tag::Input, b"type") => self.has_password |= value.eq_ignore_ascii_case(b"password"),
                _ => {}
            },
            CallbackEvent::CloseStartTag { .. } => match (self.tag, self.href.take()) {
                (Tag::Link, href) => {
                    self.close_link();
                    href.iter().for_each(|href| self.link(href));
                }
                (Tag::Base, Some(href)) if !self.has_base => {
                    self.has_base = true;
                    if let Ok(RedirectTarget { address, target }) = resolve(&self.base.0, &self.base.1, &cleaned(&href))
                    {
                        self.base = (address, target);
                    }
                }
                _ => {}
            },
            CallbackEvent::String { value } => {
                if std::mem::replace(&mut self.tag, Tag::Other) == Tag::Heading {
                    let text = String::from_utf8_lossy(value).trim().to_ascii_lowercase();
                    self.has_heading |= HEADINGS.iter().any(|heading| text.starts_with(heading));
                    self.has_empty_heading |= EMPTY.iter().any(|heading| text.starts_with(heading));
                } else {
                    self.has_more |= !value.trim_ascii().is_empty();
                }
                if let Some((_, text)) = &mut self.open {
                    let room = TEXT_MAX.saturating_sub(text.len());
                    text.extend_from_slice(&value[..value.len().min(room)]);
                }
            }
            CallbackEvent::EndTag { name } => {
                self.tag = Tag::Other;
                self.has_end |= *name == b"html";
                if *name == b"a" {
                    self.close_link();
                }
            }
            _ => {}
        }
    }

    /// Follows a link, and remembers what it leads to.
    fn link(&mut self, href: &[u8]) {
        let href = cleaned(href);
        if href.is_empty() || href.starts_with(b"#") {
            return;
        }
        let begin = String::from_utf8_lossy(&href[..href.len().min(8)]).to_ascii_lowercase();
        self.has_sorts |= SORTS.iter().any(|sort| begin.starts_with(sort));
        let (name, is_directory) = match follow(self.place, &self.base, &href) {
            Link::Itself => return self.has_place = true,
            Link::Above(levels) => return self.has_place |= levels <= 1,
            Link::Hidden(name) => {
                self.open = Some(Default::default());
                return self.open_query = Some((xxh3_128(&name), href));
            }
            Link::Sorted | Link::Query => return self.page.passed_over.queries += 1,
            Link::Elsewhere => return self.page.passed_over.elsewhere += 1,
            Link::Inexact(why) => return self.inexact(&href, why),
            Link::File(name) => (name, false),
            Link::Directory(name) => (name, true),
        };
        let last = name.strip_suffix(b"/").unwrap_or(&name).rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        (self.open, self.below) = (Some((last.to_vec(), Vec::new())), self.below + 1);
        if self.seen.len() < SEEN_MAX && !self.seen.insert(xxh3_128(&name)) {
            return; // an icon may link to the same place
        }
        self.page.sum = self.page.sum.wrapping_add(xxh3_128(&name[self.place.directory.len()..]));
        match is_directory {
            true => self.page.directories.push(name.into()),
            false => self.page.names.push(&name, false),
        }
    }

    /// The text of a link is complete. Servers cut long names: `photograph..>`.
    fn close_link(&mut self) {
        let Some((name, text)) = self.open.take() else { return };
        let text = text.trim_ascii();
        if let Some(query) = self.open_query.take() {
            match text.is_empty() {
                true => self.page.passed_over.queries += 1, // an icon
                false => self.queries.push(query),
            }
            return;
        }
        let cut = text.strip_suffix(b"..>").or_else(|| text.strip_suffix(b"...")).filter(|cut| !cut.is_empty());
        let whole = text.strip_suffix(b"/").or_else(|| text.strip_suffix(b"@")).unwrap_or(text);
        let is_name = text == name || whole == name || cut.is_some_and(|cut| name.starts_with(cut));
        // A second link to the same place, around an icon, shows nothing.
        (self.named, self.below) = (self.named + u64::from(is_name), self.below - u64::from(text.is_empty()));
    }
}

/// The names of the files and directories that a page at this path links to, and where each is requested, for the fuzz target.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn linked(html: &[u8]) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    use crate::source::Entries;
    use crate::source::list_get::cut::{LocalName, Names};
    let address = Address::new(false, "h".to_owned(), None);
    let (start, target) = ([b"a b".to_vec()], &b"/a%20b/c/"[..]);
    let Ok(page) = read(html, &Place { address: &address, start: &start, target, directory: b"c/" }, false) else {
        return Vec::new();
    };
    let names = Names::new(&page.names.bytes.into(), &LocalName::default()).expect("names");
    let files = (0..names.len()).map(|index| names.get(index)).filter(|entry| entry.unlisted.is_none());
    let all = files.map(|entry| entry.name.to_vec()).chain(page.directories.iter().map(|name| name.to_vec()));
    let again = |name: &Vec<u8>| {
        let mut request = b"/a%20b/".to_vec();
        shoal_http::encode_name(&mut request, name, false);
        let place = Place { address: &address, start: &start, target, directory: b"c/" };
        match follow(&place, &(address.clone(), target.to_vec()), &request) {
            Link::File(name) | Link::Directory(name) => Some(name),
            _ => None,
        }
    };
    all.map(|name| (name.clone(), again(&name))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::cut::{LocalName, Names};
    use super::super::link::directory_at;
    use super::*;
    use crate::source::Entries;

    /// What a page at `target` links to, if it is an index; what cannot be followed has a `!`.
    fn links(html: impl AsRef<[u8]>, target: &str) -> Option<(Vec<String>, Vec<String>, PassedOver)> {
        let address = Address::parse("http://h:81/pub%20x").unwrap();
        let (start, target) = ([b"pub x".to_vec()], target.as_bytes());
        let directory = directory_at(&address, &start, target).unwrap();
        let page =
            read(html.as_ref(), &Place { address: &address, start: &start, target, directory: &directory }, false)
                .ok()?;
        let names = Names::new(&page.names.bytes.into(), &LocalName::default()).unwrap();
        let text = |name: &[u8]| escape(name).clone();
        let name = |index| match names.get(index) {
            entry if entry.unlisted.is_some() => format!("!{}", text(entry.name)),
            entry => text(entry.name),
        };
        let directories = page.directories.iter().map(|name| text(name)).collect();
        Some(((0..names.len()).map(name).collect(), directories, page.passed_over))
    }

    /// The same of links on an index of the start directory.
    fn of(hrefs: &[&str]) -> (Vec<String>, Vec<String>, PassedOver) {
        let anchors: Vec<_> = hrefs.iter().map(|href| format!("<a href=\"{href}\">x</a>")).collect();
        links(format!("<title>Index of /pub x/</title>{}", anchors.concat()), "/pub%20x/").unwrap()
    }

    #[test]
    fn pages_of_all_servers_are_read() {
        let escaped = |name: &str| escape(name.as_bytes());
        let long = format!("long{}.txt", "x".repeat(100));
        let mut files: Vec<String> = [
            "a b.txt",
            "a&b<c>.txt",
            "a:b.txt",
            "back\\slash.txt",
            "index2.html",
            &long,
            "per%cent.txt",
            "plus+.txt",
            "q?x#y.txt",
            "quote'\".txt",
            "tilde~.txt",
            "with;semi=.txt",
            "üñ.txt",
        ]
        .map(escaped)
        .to_vec();
        files.sort();
        // Recorded from these servers; the fuzz target begins with them, too.
        let recorded = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/list_page/index-");
        for (server, queries) in [("nginx", 0), ("apache", 4), ("lighttpd", 0), ("python", 0), ("caddy", 4)] {
            let page = &std::fs::read(format!("{recorded}{server}")).unwrap();
            let (mut found, mut directories, passed_over) = links(page, "/pub%20x/").expect(server);
            found.retain(|name| name != ".hidden" && !name.starts_with("lat"));
            found.sort();
            directories.sort();
            assert_eq!(
                (&found, directories.join(",")),
                (&files, "empty/,loop/,q?dir/,sub dir/".to_owned()),
                "{server}"
            );
            assert_eq!(passed_over.queries, queries, "{server}");
            assert!(links(page, "/pub%20x/deep/er/").expect(server).0.iter().all(|name| name.starts_with("deep/er/")));
        }
    }

    #[test]
    fn names_are_those_that_lead_to_the_same_request() {
        let (files, directories, _) =
            of(&["a%20b", "a+b", "%41", "x&amp;y", "./c:d", "/pub%20x/r", "d/e/", "%2B%25", "\tz\n"]);
        assert_eq!(files, ["a b", "a+b", "A", "x&y", "c:d", "r", "+%", "z"]);
        assert_eq!(directories, ["d/e/"]);
        let (files, ..) = of(&["a%2Fb", "100%", "%zz", "x/%2E%2e/y", "a//b", "n%00", "../pub%20x/%2e%2e"]);
        assert!(files.len() == 7 && files.iter().all(|name| name.starts_with('!')), "{files:?}");
    }

    #[test]
    fn links_to_other_places_are_counted() {
        let known = of(&["../", "/", "/pub%20x/", "", "#x", "./"]);
        assert_eq!((known.0.len() + known.1.len(), known.2), (0, PassedOver::default()));
        let others =
            ["../", "/pub%20xy", "../other", "//g/pub%20x/a", "https://h:81/pub%20x/a", "mailto:a@b", "/pub%20x"];
        assert_eq!(of(&others), (vec![], vec![], PassedOver { queries: 0, elsewhere: 5 }));
        let (files, _, passed_over) =
            of(&["?C=N;O=D", "?sort=name&order=asc", "./?N=D", "?", "a", "a?v=1", "/x?y", "../?d=b"]);
        assert_eq!((files.join(","), passed_over), ("a".into(), PassedOver { queries: 7, elsewhere: 0 }));
        let page =
            "<h1>Index of</h1><a href='/pub%20x/b/c'>c</a><a href=d>d</a><a href=../../b/>b</a><a href=../>..</a>";
        let (files, directories, passed_over) = links(page, "/pub%20x/a/z/").unwrap();
        assert_eq!((files.join(","), directories.len(), passed_over.elsewhere), ("a/z/d".into(), 0, 2));
    }

    #[test]
    fn a_link_with_a_query_that_may_be_an_object_or_a_page_is_a_failure() {
        for href in ["?dir=sub", "?page=2", "?n=2", "?d=a", "f.nc?download=1", "get.php?f=x", "sub/?C=N", "?sort=a/b"] {
            let (files, directories, passed_over) = of(&["../", href, "g", "g?v"]);
            assert_eq!(files.join(" "), format!("g !{href}"));
            assert_eq!((directories.len(), passed_over), (0, PassedOver { queries: 1, elsewhere: 0 }));
        }
        let (files, ..) = links("<h1>Index of</h1><a href=?x=1>1</a><a href=?x=2>2</a>", "/pub%20x/d/").unwrap();
        assert_eq!(files, ["!d/?x=1"], "one failure for a page");
    }

    #[test]
    fn a_link_to_the_same_server_with_the_other_scheme_is_followed() {
        for (own, href, follows) in [
            ("https://h/", "http://h/a", true),
            ("https://h:8443/", "http://h/a", true),
            ("https://h:8443/", "http://h:8080/a", false),
            ("http://h/", "https://H/a", true),
            ("http://h:8080/", "https://h/a", false),
            ("http://h/", "https://g/a", false),
        ] {
            let (address, html) =
                (Address::parse(own).unwrap(), format!("<h1>Index of</h1><a href={href}>a</a><a href=/>"));
            let place = Place { address: &address, start: &[], target: b"/", directory: b"" };
            assert_eq!(read(html.as_bytes(), &place, false).unwrap().names.count == 1, follows, "{own} {href}");
        }
    }

    #[test]
    fn broken_html_is_read_as_browsers_read_it() {
        let html = "<TITLE>index OF</title><A class=x HREF = one>1<a href='two' href='no'>2</p><!-- <a href=no> -->\
                    <script>'<a href=no>'</script><a\nhref=three\n><img></a><a href=three>three</a><a href=cut";
        let (files, ..) = links(html, "/pub%20x/").unwrap();
        assert_eq!(files, ["one", "two", "three"]);
    }

    #[test]
    fn what_is_no_index_is_not_taken_for_an_empty_directory() {
        for html in [
            "",
            "<html><body></body></html>",
            "<title>Sign in</title><a href=forgot>Forgot your password?</a>",
            "<title>Index of</title><input type=Password>",
            "<h1>404</h1><a href=/>home</a><a href=../>up</a>",
            "<html><title>Index of /pub</title><script src=/l.js></script></html>",
            "<html><title>Index of /pub x/</title><h1>Index of /pub x/</h1><p>Error: permission denied</p></html>",
            "<html><title>Index of /pub x/</title><h1>Index of /pub x/</h1><pre><a href=../>../</a>",
            "<title>Directory listing for /x/</title>",
            "<title>Directory: please sign in</title><a href=/login>Sign in</a>",
            "<title>Index of /</title><a href=http://other/pub%20x/a>a</a>",
            "<title>My page</title><a href=a.html>A</a><a href=b.html>B</a><a href=c.html>c.html</a>",
        ] {
            assert!(links(html, "/pub%20x/").is_none(), "{html}");
        }
        for html in [
            "<pre><a href=a.txt>a.txt</a>\n<a href=b/>b/</a></pre>", // Go
            "<html><title>Directory listing for /x/</title><h1>Directory listing for /x/</h1><hr><ul></ul><hr></html>",
            "<html><title>Index of /</title><h1>Index of /</h1><ul></ul></html>", // Apache in the root
            "<h1>Index of /pub x/</h1><a href='/'>Parent Directory</a>",
            "<title>listing directory /pub x</title><a href='/pub%20x'>pub x</a>", // Express
            "<a href='?C=N;O=D'>Name</a>",
            "<a href=photograph.jpg><img></a><a href=photograph.jpg>photog..&gt;</a>",
        ] {
            assert!(links(html, "/pub%20x/").is_some(), "{html}");
        }
    }
}
