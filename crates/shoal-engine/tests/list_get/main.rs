//! The listing of a list/get service against servers of a few lines: chains of pages, loops, resuming, limits. `pages`:
//! what one page says.

mod pages;
#[path = "../scripted/mod.rs"]
mod scripted;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use scripted::*;
use shoal_engine::options::{Resume, Workers};
use shoal_engine::sink::dir::{DirOptions, DirSink};
use shoal_engine::source::list_get::{ListGet, ListGetOptions};
use shoal_engine::transfer::{Outcome, Transfer};
use shoal_engine::{Kind, TransferOptions};

/// What was asked for.
type Log = Arc<Mutex<Vec<String>>>;

/// Lists `page(number)` for number after number, its token being the number; every object holds its name.
fn serve_pages(page: impl Fn(usize) -> Vec<u8> + Send + Sync + 'static) -> (String, Arc<AtomicUsize>) {
    let listed = Arc::new(AtomicUsize::new(0));
    let count = listed.clone();
    let url = serve(move |asked, stream| match asked.name() {
        Some(name) => plain(stream, name),
        None => {
            count.fetch_add(1, Relaxed);
            plain(stream, page(asked.token().parse().unwrap_or(0)))
        }
    });
    (url, listed)
}

fn names_of(found: &BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<&str> {
    found.keys().map(|name| std::str::from_utf8(name).unwrap()).collect()
}

#[test]
fn a_chain_of_pages_is_followed_to_its_end() {
    let pages = [
        r#"{"FileNames":["a","b"],"NextMarker":"1"}"#,
        r#"{"NextFile":"2","FileNames":["c"],"took":{"ms":[1,2,{"x":null}]}}"#,
        r#"{"FileNames":["d\u00e9"],"NextMarker":3}"#,
        r#"{"FileNames":[],"NextMarker":"4","NextFile":"7"}"#,
        r#"{"FileNames":[],"NextMarker":null,"NextFile":"5"}"#,
        r#"{"FileNames":["e"],"NextMarker":""}"#,
    ];
    let (url, listed) = serve_pages(move |number| pages[number].as_bytes().to_vec());
    let (outcome, found) = copy(&url, ListGetOptions::default(), 2);
    assert!(outcome.error.is_none() && outcome.report.complete, "{:?}", outcome.error);
    assert_eq!(names_of(&found), ["a", "b", "c", "dé", "e"]);
    assert_eq!((listed.load(Relaxed), outcome.report.run.listed), (6, 5));
}

#[test]
fn a_listing_without_names_is_a_finished_run() {
    for page in [r#"{"FileNames":[]}"#, r#"{"FileNames":[],"NextMarker":""}"#, r#"{"FileNames":[],"NextFile":null}"#] {
        let (url, listed) = serve_pages(|_| page.as_bytes().to_vec());
        let (outcome, found) = copy(&url, ListGetOptions::default(), 2);
        assert!(outcome.error.is_none() && outcome.report.complete, "{:?}", outcome.error);
        assert_eq!((found.len(), listed.load(Relaxed)), (0, 1));
    }
}

#[test]
fn names_that_come_twice_are_fetched_once_and_counted() {
    let (url, _) = serve_pages(|number| match number {
        0 => page_before(&["a", "b", "a", "a"], "1"),
        _ => page(&["c", "b"]),
    });
    let (outcome, found) = copy(&url, ListGetOptions::default(), 2);
    assert!(outcome.error.is_none());
    assert_eq!(names_of(&found), ["a", "b", "c"]);
    let counts = outcome.report.run;
    assert_eq!((counts.listed, counts.written, counts.skipped), (6, 3, 3));
    assert_eq!(outcome.report.duplicates, 3);
}

#[test]
fn a_listing_that_never_ends_is_found_out() {
    type Pages = fn(usize) -> Vec<u8>;
    let services: [(&str, Pages, usize); 6] = [
        ("a page that names itself", |n| page_before(&[format!("n{n}")], "1"), 2),
        ("a ring of tokens", |n| page_before(&[format!("n{n}")], &((n + 1) % 5).to_string()), 20),
        ("the same page under new tokens", |n| page_before(&numbered(10), &(n + 1).to_string()), 20),
        (
            "the same page under new tokens, shuffled",
            |n| {
                let mut names = numbered(10);
                names.rotate_left(n % 10);
                page_before(&names, &(n + 1).to_string())
            },
            20,
        ),
        ("a ring of pages under new tokens", |n| page_before(&[format!("n{}", n % 6)], &(n + 1).to_string()), 70),
        ("empty pages", |n| page_before(&[""; 0], &(n + 1).to_string()), 10_000),
    ];
    for (what, pages, most) in services {
        let (url, listed) = serve_pages(pages);
        let (outcome, _) = copy(&url, ListGetOptions::default(), 2);
        let error = outcome.error.expect(what);
        assert_eq!(error.kind(), Kind::Listing, "{what}: {error}");
        assert!(error.to_string().contains("/list (page "), "{what}: {error}");
        assert!((2..=most).contains(&listed.load(Relaxed)), "{what}: {listed:?} pages");
    }
}

#[test]
fn one_token_with_ever_new_pages_is_found_out() {
    let number = AtomicUsize::new(0);
    let (url, listed) = serve_pages(move |_| page_before(&[format!("n{}", number.fetch_add(1, Relaxed))], "again"));
    let (outcome, _) = copy(&url, ListGetOptions::default(), 2);
    assert_eq!(outcome.error.map(|error| error.kind()), Some(Kind::Listing));
    assert_eq!(listed.load(Relaxed), 2);
}

#[test]
fn what_looks_like_a_loop_and_ends_is_none() {
    // A page of one name that comes twice, empty pages between, a token that is a prefix of another.
    let (url, _) = serve_pages(|number| match number {
        0..40 => page_before(&[""; 0], &(number + 1).to_string()),
        40 | 41 => page_before(&["twice"], &(number + 1).to_string()),
        42..100 => page_before(&[format!("n{number}")], &(number + 1).to_string()),
        _ => page(&["last"]),
    });
    let (outcome, found) = copy(&url, ListGetOptions::default(), 2);
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    assert_eq!((found.len(), outcome.report.duplicates), (60, 1));
}

#[test]
fn a_page_without_end_is_given_up_at_the_limit() {
    for announced in ["Transfer-Encoding: chunked", "Content-Length: 1099511627776"] {
        let sent = Arc::new(AtomicUsize::new(0));
        let count = sent.clone();
        let url = serve(move |_, stream| {
            let names = br#""some/name/of/an/object","#.repeat(10_000);
            let chunked = announced.contains("chunked");
            send(stream, format!("HTTP/1.1 200 OK\r\n{announced}\r\n\r\n"));
            let begin = |text: &[u8]| match chunked {
                true => [format!("{:x}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat(),
                false => text.to_vec(),
            };
            send(stream, begin(b"{\"FileNames\":["));
            let piece = begin(&names);
            while send(stream, &piece) {
                count.fetch_add(piece.len(), Relaxed);
            }
            false
        });
        let (outcome, _) = copy(&url, ListGetOptions::default(), 2);
        let error = outcome.error.expect("the page has no end");
        assert_eq!(error.kind(), Kind::Listing);
        assert!(error.to_string().contains("64 MiB"), "{error}");
        // The limit, and what lies in the kernel's buffers.
        assert!(sent.load(Relaxed) < 80 << 20, "{announced}: {sent:?} bytes");
    }
}

#[test]
fn a_connection_dropped_between_pages_is_no_failure() {
    let number = |token: &str| token.parse::<usize>().unwrap_or(0);
    let url = serve(move |asked, stream| {
        let Some(name) = asked.name() else {
            let at = number(asked.token());
            plain(
                stream,
                page_before(&[format!("n{at}")], &if at < 30 { (at + 1).to_string() } else { String::new() }),
            );
            return asked.nth % 3 != 0; // the third page is the last of its connection, which nobody announces
        };
        plain(stream, name)
    });
    let (outcome, found) = copy(&url, ListGetOptions::default(), 2);
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    assert_eq!((found.len(), outcome.report.retries), (31, 0));
}

#[test]
fn a_page_cut_in_the_middle_is_asked_for_again_and_nothing_is_listed_twice() {
    let cut = AtomicBool::new(false);
    let url = serve(move |asked, stream| match (asked.name(), asked.token()) {
        (Some(name), _) => plain(stream, name),
        (None, "") => plain(stream, page_before(&["a", "b"], "1")),
        (None, _) if !cut.swap(true, Relaxed) => {
            send(stream, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"FileNames\":[\"c\"");
            false
        }
        (None, _) => plain(stream, page(&["c", "d"])),
    });
    let (outcome, found) = copy(&url, ListGetOptions::default(), 2);
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    assert_eq!(names_of(&found), ["a", "b", "c", "d"]);
    assert_eq!((outcome.report.run.listed, outcome.report.retries), (4, 1));
}

#[test]
fn a_listing_asked_to_slow_down_waits_as_long_as_it_was_asked() {
    let times = Arc::new(Mutex::new(Vec::new()));
    let asked_at = times.clone();
    let url = serve(move |asked, stream| match (asked.name(), asked.token()) {
        (Some(name), _) => plain(stream, name),
        (None, "") => plain(stream, page_before(&["a"], "1")),
        (None, _) => {
            let mut times = asked_at.lock().unwrap();
            times.push(Instant::now());
            match times.len() {
                1 => with_fields(stream, "503 Busy", "Retry-After: 1\r\n", ""),
                _ => plain(stream, page(&["b"])),
            }
        }
    });
    let (outcome, found) = copy(&url, ListGetOptions::default(), 2);
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    assert_eq!(found.len(), 2);
    let times = times.lock().unwrap();
    assert_eq!(times.len(), 2, "asked once, and once more after the wait");
    assert!(times[1] - times[0] >= Duration::from_secs(1));
}

#[test]
fn a_listing_that_is_refused_says_what_to_do() {
    let page = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}";
    for (wire, kind, words) in [
        ("HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n", Kind::Credentials, "`headers="),
        ("HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n", Kind::Credentials, "`headers="),
        ("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", Kind::Listing, "`list_path`"),
        (
            "HTTP/1.1 302 There\r\nLocation: http://h/?t=secret\r\nContent-Length: 0\r\n\r\n",
            Kind::Listing,
            "`allow_host=",
        ),
        ("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>", Kind::Listing, "`list_path`"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{\"names\":[\"a\"]}", Kind::Listing, "`names_field`"),
        (page, Kind::Listing, "gzip"),
    ] {
        let url = serve(move |_, stream| send(stream, wire));
        let (outcome, _) = copy(&url, ListGetOptions::default(), 1);
        let error = outcome.error.expect(words);
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(words) && !error.to_string().contains("secret"), "{error}");
    }
}

/// Pages of ten of a thousand objects; which tokens have been asked for, and which objects.
struct Shelf {
    url: String,
    tokens: Arc<Mutex<Vec<String>>>,
    objects: Arc<Mutex<Vec<String>>>,
    /// Answer 400 to every token.
    forgetful: Arc<AtomicBool>,
}

fn shelf() -> Shelf {
    let (tokens, objects, forgetful) = (Arc::default(), Arc::default(), Arc::new(AtomicBool::new(false)));
    let (token_log, object_log): (Log, Log) = (Arc::clone(&tokens), Arc::clone(&objects));
    let forgot = forgetful.clone();
    let url = serve(move |asked, stream| {
        if let Some(name) = asked.name() {
            object_log.lock().unwrap().push(name.to_owned());
            std::thread::sleep(Duration::from_millis(2)); // so that there is time to stop it
            return plain(stream, name);
        }
        token_log.lock().unwrap().push(asked.token().to_owned());
        if forgot.load(Relaxed) && !asked.token().is_empty() {
            return with_fields(stream, "400 Bad Request", "", "no such marker");
        }
        let at = asked.token().parse().unwrap_or(0);
        let names: Vec<String> = (at..at + 10).map(|n| format!("n{n:04}")).collect();
        plain(stream, page_before(&names, &if at + 10 < 1000 { (at + 10).to_string() } else { String::new() }))
    });
    Shelf { url, tokens, objects, forgetful }
}

impl Shelf {
    /// Copies to a directory until so many objects are committed.
    fn copy(&self, out: &Path, stop_at: u64, options: TransferOptions) -> Outcome {
        let source = Arc::new(ListGet::new(&self.url, ListGetOptions::default()).unwrap());
        let sink = Arc::new(DirSink::new(out, DirOptions::default()).unwrap());
        let outcome = Transfer::new(source, sink, options).run(&mut |progress| {
            if progress.committed >= stop_at { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert!(outcome.report.run.balanced() && outcome.report.total.balanced(), "{:?}", outcome.report);
        outcome
    }

    /// A run that was stopped after a while: what it had committed.
    fn stopped(&self, out: &Path) -> u64 {
        // Slow enough that the run is far from its end when the first batch is committed, on a slow disk too.
        let options =
            TransferOptions { workers: Workers::Fixed(2), limit_rate: Some(1000), ..TransferOptions::default() };
        let outcome = self.copy(out, 100, options);
        assert_eq!(outcome.error.map(|error| error.kind()), Some(Kind::Interrupted));
        self.tokens.lock().unwrap().clear();
        self.objects.lock().unwrap().clear();
        outcome.report.run.written
    }
}

fn all_there(out: &Path) -> bool {
    (0..1000).all(|n| {
        let name = format!("n{n:04}");
        std::fs::read(out.join(&name)).is_ok_and(|bytes| bytes == name.as_bytes())
    })
}

#[test]
fn a_resumed_run_lists_on_where_the_first_one_stopped() {
    let (shelf, temp) = (shelf(), tempfile::tempdir().unwrap());
    let written = shelf.stopped(temp.path());
    let outcome = shelf.copy(temp.path(), u64::MAX, TransferOptions::default());
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    assert!(all_there(temp.path()));
    assert_eq!(outcome.report.run.written + written, 1000);
    assert_eq!(shelf.objects.lock().unwrap().len() as u64, 1000 - written, "nothing committed is fetched again");
    let tokens = shelf.tokens.lock().unwrap();
    assert!(!tokens.contains(&String::new()), "not from the start");
}

#[test]
fn a_token_that_is_refused_on_resume_names_relist_which_then_helps() {
    let (shelf, temp) = (shelf(), tempfile::tempdir().unwrap());
    let written = shelf.stopped(temp.path());
    shelf.forgetful.store(true, Relaxed);
    let outcome = shelf.copy(temp.path(), u64::MAX, TransferOptions::default());
    let error = outcome.error.expect("the place is lost");
    assert_eq!(error.kind(), Kind::CursorRefused);
    assert!(error.advice().is_some_and(|hint| hint.contains("relist")), "{error}");
    assert_eq!(shelf.tokens.lock().unwrap().len(), 1, "not asked again and again");
    shelf.forgetful.store(false, Relaxed);
    let options = TransferOptions { resume: Resume::Relist, ..TransferOptions::default() };
    let outcome = shelf.copy(temp.path(), u64::MAX, options);
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    assert!(all_there(temp.path()));
    assert_eq!(shelf.objects.lock().unwrap().len() as u64, 1000 - written, "nothing committed is fetched again");
}
