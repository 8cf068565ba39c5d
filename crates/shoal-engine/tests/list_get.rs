//! The listing of a list/get service against servers of a few lines: chains of pages, loops, resuming, limits.

mod scripted;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use scripted::*;
use shoal_engine::options::Workers;
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

/// Lists pages in turn with these options; the error, and the names that were copied.
fn listed(pages: &'static [&'static str], options: ListGetOptions) -> (Option<String>, Vec<String>) {
    let (url, _) = serve_pages(move |number| pages[number].as_bytes().to_vec());
    let (outcome, found) = copy(&url, options, 2);
    assert_eq!(outcome.report.complete, outcome.error.is_none());
    let error = outcome.error.map(|error| format!("{} hint: {}", error.line(), error.advice().unwrap_or_default()));
    (error, names_of(&found).into_iter().map(str::to_owned).collect())
}

fn next_field(field: &str) -> ListGetOptions {
    ListGetOptions { next_field: vec![field.to_owned()], ..ListGetOptions::default() }
}

#[test]
fn a_page_that_looks_as_if_the_listing_went_on_does_not_end_it() {
    for (page, field) in [
        (&[r#"{"FileNames":["a"],"IsTruncated":true,"NextContinuationToken":"x"}"#], "IsTruncated"),
        (&[r#"{"FileNames":["a"],"nextMarker":"x"}"#], "nextMarker"),
        (&[r#"{"next":"500","FileNames":["a"]}"#], "next"),
        (&[r#"{"FileNames":["a"],"NextMarker":"","cursor":7}"#], "cursor"),
        (&[r#"{"FileNames":["a"],"paging":{"cursors":{"after":"x","next":"y"}}}"#], "paging.cursors.next"),
        (&[r#"{"FileNames":["a"],"has_more":true}"#], "has_more"),
        (&[r#"{"FileNames":["a"],"links":[{"rel":"self","href":"x"},{"rel":"next","href":"y"}]}"#], "links"),
    ] {
        let (error, _) = listed(page, ListGetOptions::default());
        let error = error.expect(field);
        assert!(error.contains("may not be the last") && error.contains(&format!("\"{field}\"")), "{error}");
        assert!(error.contains("--next-field none"), "{error}");
        let (error, names) = listed(page, next_field("none"));
        assert_eq!((error, names), (None, vec!["a".to_owned()]), "who says that it is one page is believed");
    }
}

#[test]
fn a_last_page_ends_the_listing_whatever_says_nothing_in_it() {
    for page in [
        &[r#"{"FileNames":["a"],"IsTruncated":false,"next":null,"cursor":"","more":0,"links":{"next":null}}"#],
        &[r#"{"FileNames":["a"],"tokens":[1,2],"links":[{"rel":"prev"},{"next":1},3],"count":1000,"took":{"ms":5}}"#],
    ] {
        assert_eq!(listed(page, ListGetOptions::default()), (None, vec!["a".to_owned()]));
    }
    // The echo of the marker that was sent, and what stands beside a field that was given and has worked.
    let echo = &[r#"{"FileNames":["a"],"NextMarker":"1"}"#, r#"{"FileNames":["b"],"marker":"1"}"#];
    assert_eq!(listed(echo, ListGetOptions::default()).0, None);
    let given = &[r#"{"FileNames":["a"],"after":"1"}"#, r#"{"FileNames":["b"],"token":"of the session"}"#];
    assert_eq!(listed(given, next_field("after")), (None, vec!["a".to_owned(), "b".to_owned()]));
    assert!(listed(&given[1..], next_field("after")).0.is_some(), "it has not worked yet");
}

#[test]
fn a_marker_that_is_a_number_is_sent_back_digit_by_digit() {
    for number in ["36893488147419103233", "1.10", "-0", "1e2"] {
        let asked: Log = Log::default();
        let log = asked.clone();
        let url = serve(move |asked, stream| match asked.name() {
            Some(name) => plain(stream, name),
            None if asked.token().is_empty() => plain(stream, format!(r#"{{"FileNames":[],"NextMarker":{number}}}"#)),
            None => {
                log.lock().unwrap().push(asked.token().to_owned());
                plain(stream, r#"{"FileNames":["a"]}"#)
            }
        });
        let (outcome, _) = copy(&url, ListGetOptions::default(), 2);
        assert!(outcome.error.is_none(), "{:?}", outcome.error);
        assert_eq!(*asked.lock().unwrap(), [number]);
    }
}

#[test]
fn a_list_of_objects_is_read_by_the_way_to_their_names() {
    let names = |field: &str| ListGetOptions { names_field: field.to_owned(), ..ListGetOptions::default() };
    let deep = &[r#"{"result":{"n":2,"files":[{"path":{"name":"a"},"size":1},{"size":2,"path":{"name":7}}]},"x":[]}"#];
    for (pages, field, wanted) in [
        (
            &[r#"{"data":[{"id":"a","n":1},{"n":2,"id":18446744073709551615}]}"#],
            "data[].id",
            ["18446744073709551615", "a"],
        ),
        (&[r#"{"data":[3,"a"]}"#], "data", ["3", "a"]),
        (&[r#"{"data":[3,"a"]}"#], "data[]", ["3", "a"]),
        (&[r#"{"data":[[-3],["a"]]}"#], "data[][]", ["-3", "a"]),
        (deep, "result.files[].path.name", ["7", "a"]),
    ] {
        let (error, found) = listed(pages, names(field));
        assert_eq!((error, found), (None, wanted.map(str::to_owned).to_vec()), "{field}");
    }
    for (pages, field, says) in [
        (&[r#"{"data":[{"id":"a"}],"total":1}"#], "FileNames", r#"no field "FileNames"; there are: "data", "total""#),
        (&[r#"{"data":[{"id":"a","n":1}]}"#], "data[].key", r#"no field "key"; there are: "id", "n""#),
        (&[r#"{"data":[{"id":"a"}]}"#], "data", "say which of its fields is, as in 'data[].id'"),
        (&[r#"{"data":[{"id":null}]}"#], "data[].id", "a name: a string or a whole number"),
        (&[r#"{"data":[{"id":1.5}]}"#], "data[].id", "a name: a string or a whole number"),
        (&[r#"{"data":[{"id":"a","id":"b"}]}"#], "data[].id", "twice"),
        (&[r#"{"FileNames":["a"],"FileNames":["b"]}"#], "FileNames", "twice"),
    ] {
        let error = listed(pages, names(field)).0.expect(field);
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn a_page_that_is_an_array_is_read_by_the_way_to_its_names() {
    let names = |field: &str| ListGetOptions { names_field: field.to_owned(), ..ListGetOptions::default() };
    for (pages, field) in [
        (&[r#"["a", 7]"#], "[]"),
        (&[r#"[{"n":1,"id":"a"},{"id":7}]"#], "[].id"),
        (&[r#"[{"file":{"path":"a"}},{"file":{"path":7}}]"#], "[].file.path"),
        (&[r#"[["a"],[],[7]]"#], "[][]"),
    ] {
        let (error, found) = listed(pages, names(field));
        assert_eq!((error, found), (None, vec!["7".to_owned(), "a".to_owned()]), "{field}");
    }
    assert_eq!(listed(&["[]"], names("[]")), (None, vec![]));
    for (pages, field, says) in [
        (&[r#"["a"]"#], "FileNames", "--names-field '[]'"),
        (&[r#"{"FileNames":["a"]}"#], "[]", "expected an array of names"),
        (&[r#"["a"] ["b"]"#], "[]", "trailing"),
        (&[r#"[{"id":"a"}]"#], "[].key", r#"there are: "id""#),
    ] {
        let error = listed(pages, names(field)).0.expect(field);
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn objects_get_the_names_that_the_pattern_makes_of_theirs() {
    let named = |pattern: &str| ListGetOptions { name: pattern.to_owned(), ..ListGetOptions::default() };
    for (pattern, wanted) in
        [("{name}.json", ["a.json", "d/b.json"]), ("data/{name}", ["data/a", "data/d/b"]), ("{name}", ["a", "d/b"])]
    {
        let (url, _) = serve_pages(|_| page(&["a", "d/b"]));
        let (outcome, found) = copy(&url, named(pattern), 2);
        assert!(outcome.report.complete, "{:?}", outcome.error);
        assert_eq!(names_of(&found), wanted);
        let bytes = found.values().map(|bytes| std::str::from_utf8(bytes).unwrap()).collect::<Vec<_>>();
        assert_eq!(bytes, ["a", "d/b"], "each was asked for by its own name");
    }
    for pattern in ["x.json", "{name}{name}", "../{name}", "/{name}", "{name}/", "{name}/../x", "a\0{name}", ""] {
        let error = ListGet::new("http://127.0.0.1:1", named(pattern)).err().expect(pattern);
        assert_eq!(error.kind(), Kind::Config, "{pattern}");
    }
}

#[test]
fn what_the_service_says_it_left_out_is_a_failure_or_a_note() {
    let whole = r#"{"FileNames":["a"],"LeftOut":"7"}"#; // another service's field
    let (url, _) = serve_pages(|_| whole.as_bytes().to_vec());
    assert!(copy(&url, ListGetOptions::default(), 2).0.report.complete);

    let left_out = r#"{"FileNames":["a"],"LeftOut":{"Names":3,"Directories":2}}"#;
    let (url, _) = serve_pages(|_| left_out.as_bytes().to_vec());
    let options = ListGetOptions { name: "{name}.x".to_owned(), ..ListGetOptions::default() };
    let (outcome, found) = copy(&url, options, 2);
    assert_eq!(names_of(&found), ["a.x"]);
    let report = outcome.report;
    assert_eq!((report.run.listed, report.run.written, report.run.failed), (2, 1, 1));
    let failure = &report.failures[0];
    assert_eq!(failure.kind, "read-failed");
    assert!(String::from_utf8_lossy(&failure.name).starts_with("2 directories"), "{failure:?}");
    assert!(report.notes.iter().any(|note| note.contains("no UTF-8") && note.ends_with(": 3")), "{:?}", report.notes);
}

#[test]
fn a_page_that_comes_broken_is_asked_for_again_a_few_times() {
    for broken in ["", "<html>busy</html>", r#"{"FileNames":["a","#, r#"{"error":"later"}"#] {
        let times = Arc::new(AtomicUsize::new(0));
        let asked = times.clone();
        let (url, _) = serve_pages(move |_| match asked.fetch_add(1, Relaxed) {
            0 | 1 => broken.as_bytes().to_vec(),
            _ => page(&["a"]),
        });
        let (outcome, found) = copy(&url, ListGetOptions::default(), 2);
        assert!(outcome.report.complete, "{:?}", outcome.error);
        assert_eq!((names_of(&found), times.load(Relaxed)), (vec!["a"], 3));

        let (url, listed) = serve_pages(move |_| broken.as_bytes().to_vec());
        let (outcome, _) = copy(&url, ListGetOptions::default(), 2);
        assert_eq!((outcome.error.expect("never a page").kind(), listed.load(Relaxed)), (Kind::Listing, 3));
    }
}

#[test]
fn a_marker_longer_than_any_service_has_is_an_error_and_takes_no_memory() {
    for token in [format!("\"{}\"", "x".repeat(17 << 10)), format!("[{}0]", "0,".repeat(1 << 20))] {
        let page = format!(r#"{{"FileNames":["a"],"NextMarker":{token}}}"#);
        let (url, _) = serve_pages(move |_| page.clone().into_bytes());
        let (outcome, _) = copy(&url, ListGetOptions::default(), 2);
        let error = outcome.error.expect("too long").line();
        assert!(error.contains("longer than 16 KiB"), "{error}");
    }
}

#[test]
fn a_long_value_of_a_field_nothing_is_known_of_is_an_error_that_names_the_field() {
    // Cut after 16 KiB, the two bytes of a letter were torn apart, which ended the listing's thread.
    for before in ["", "x"] {
        let page = format!(r#"{{"FileNames":["a"],"nextX":"{before}{}"}}"#, "é".repeat(9 << 10));
        let (url, _) = serve_pages(move |_| page.clone().into_bytes());
        let (outcome, _) = copy(&url, ListGetOptions::default(), 2);
        let error = outcome.error.expect("it may not be the last").line();
        assert!(error.contains(r#"its field "nextX" looks like"#), "{error}");
    }
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
        ("HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n", Kind::Credentials, "--header"),
        ("HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n", Kind::Credentials, "--header"),
        ("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", Kind::Listing, "--list-path"),
        (
            "HTTP/1.1 302 There\r\nLocation: http://h/?t=secret\r\nContent-Length: 0\r\n\r\n",
            Kind::Listing,
            "--allow-host",
        ),
        ("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>", Kind::Listing, "--list-path"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{\"names\":[\"a\"]}", Kind::Listing, "--names-field"),
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
    assert!(error.advice().is_some_and(|hint| hint.contains("--relist")), "{error}");
    assert_eq!(shelf.tokens.lock().unwrap().len(), 1, "not asked again and again");
    shelf.forgetful.store(false, Relaxed);
    let options = TransferOptions { relist: true, ..TransferOptions::default() };
    let outcome = shelf.copy(temp.path(), u64::MAX, options);
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    assert!(all_there(temp.path()));
    assert_eq!(shelf.objects.lock().unwrap().len() as u64, 1000 - written, "nothing committed is fetched again");
}
