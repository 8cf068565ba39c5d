//! What one page of a listing says: names, objects with names, the place of the next page, what is left out.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use shoal_engine::Kind;
use shoal_engine::source::list_get::{ListGet, ListGetOptions, PageForm};

use super::scripted::*;
use super::{Log, names_of, serve_pages};

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

fn of_form(pages: PageForm) -> ListGetOptions {
    ListGetOptions { pages, ..ListGetOptions::default() }
}

#[test]
fn a_page_that_looks_as_if_the_listing_went_on_does_not_end_it() {
    for (page, field) in [
        (&[r#"{"FileNames":["a"],"IsTruncated":true,"NextContinuationToken":"x"}"#], "NextContinuationToken"),
        (&[r#"{"FileNames":["a"],"nextMarker":"x"}"#], "nextMarker"),
        (&[r#"{"next":"500","FileNames":["a"]}"#], "next"),
        (&[r#"{"FileNames":["a"],"NextMarker":"","cursor":7}"#], "cursor"),
        (&[r#"{"FileNames":["a"],"paging":{"cursors":{"before":"x","next":"y"}}}"#], "paging.cursors.next"),
        (&[r#"{"FileNames":["a"],"has_more":true}"#], "has_more"),
        (&[r#"{"FileNames":["a"],"_links":{"next":{"href":"x"}}}"#], "_links.next.href"),
        (&[r#"{"FileNames":["a"],"next":["x"]}"#], "next"),
        (&[r#"{"FileNames":["a"],"offset":"itr1/rec2"}"#], "offset"),
        (&[r#"{"FileNames":["a"],"page":{"next":"3","next":null}}"#], "page.next"),
        (&[r#"{"FileNames":["a"],"links":[{"rel":["next"],"href":"x"}]}"#], "links"),
        (&[r#"{"FileNames":["a"],"links":[{"rel":"self","href":"x"},{"rel":"next","href":"y"}]}"#], "links"),
    ] {
        let (error, _) = listed(page, ListGetOptions::default());
        let error = error.expect(field);
        assert!(error.contains("may not be the last") && error.contains(&format!("\"{field}\"")), "{error}");
        assert!(error.contains("`pages=\"one\"`"), "{error}");
        for one_page in [next_field("none"), of_form(PageForm::One)] {
            let (error, names) = listed(page, one_page);
            assert_eq!((error, names), (None, vec!["a".to_owned()]), "a user who says that it is one page is believed");
        }
    }
}

#[test]
fn a_page_with_a_next_one_in_its_header_does_not_end_the_listing() {
    let serve_linked = |link: &'static str| {
        serve(move |asked, stream| match asked.name() {
            Some(name) => plain(stream, name),
            None => with_fields(stream, "200 OK", &format!("Link: {link}\r\n"), r#"["a"]"#),
        })
    };
    let array = |next: &str| ListGetOptions { names_field: "[]".to_owned(), ..next_field(next) };
    for link in [
        r#"<http://x/?page=2>; rel="next", <http://x/?page=9>; rel="last""#,
        "<?page=2>; title=x; REL=next",
        r#"<?p=2>; rel="last next""#,
    ] {
        let (outcome, _) = copy(&serve_linked(link), array("NextMarker"), 2);
        let error = outcome.error.expect(link);
        assert!(error.line().contains("may not be the last: its Link header names a next page"), "{}", error.line());
        assert!(copy(&serve_linked(link), array("none"), 2).0.report.complete);
    }
    let last = r#"<http://x/?page=1>; rel="prev"; title="rel=next.""#;
    assert!(copy(&serve_linked(last), array("NextMarker"), 2).0.report.complete);
}

#[test]
fn what_stands_beside_nested_names_does_not_end_the_listing_either() {
    let names = |field: &str| ListGetOptions { names_field: field.to_owned(), ..ListGetOptions::default() };
    for (page, field, more) in [
        (&[r#"{"result":{"nextCursor":"x","files":["a"]}}"#], "result.files", "result.nextCursor"),
        (&[r#"{"result":{"files":[{"n":"a"}],"IsTruncated":true}}"#], "result.files[].n", "result.IsTruncated"),
    ] {
        let error = listed(page, names(field)).0.expect(field);
        assert!(error.contains(&format!("its field \"{more}\" ")), "{error}");
    }
    let of_an_object = &[r#"{"data":[{"id":"a","next":"b","token":"x"}]}"#];
    assert_eq!(listed(of_an_object, names("data[].id")), (None, vec!["a".to_owned()]));
}

#[test]
fn a_page_that_came_encoded_is_decoded_or_refused() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&page(&["a", "b"])).unwrap();
    let gzip = gzip.finish().unwrap();
    let encoded = |encoding: &'static str, body: Vec<u8>| {
        serve(move |asked, stream| match asked.name() {
            Some(name) => plain(stream, name),
            None => with_fields(stream, "200 OK", &format!("Content-Encoding: {encoding}\r\n"), &body),
        })
    };
    let (outcome, found) = copy(&encoded("gzip", gzip.clone()), ListGetOptions::default(), 2);
    assert!(outcome.report.complete, "{:?}", outcome.error);
    assert_eq!(names_of(&found), ["a", "b"]);
    for (encoding, body, says) in [("br", gzip.clone(), "\"br\""), ("gzip", gzip[..20].to_vec(), "its end is missing")]
    {
        let error = copy(&encoded(encoding, body), ListGetOptions::default(), 2).0.error.expect(encoding);
        assert!(error.kind() == Kind::Listing && error.line().contains(says), "{}", error.line());
    }
}

#[test]
fn a_last_page_ends_the_listing_whatever_says_nothing_in_it() {
    for page in [
        &[r#"{"FileNames":["a"],"IsTruncated":false,"next":null,"cursor":"","more":0,"links":{"next":null}}"#],
        &[
            r#"{"FileNames":["a"],"tokens":[1,2],"links":[{"rel":"prev"},{"next":1},3],"count":1,"took":{"ms":5},"offset":200,"next":[]}"#,
        ],
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
        (&[r#"{"data":[{"id":"a"}],"total":1}"#], "FileNames", r#"no field "FileNames"; it has: "data", "total""#),
        (&[r#"{"data":[{"id":"a","n":1}]}"#], "data[].key", r#"no field "key"; it has: "id", "n""#),
        (&[r#"{"data":[{"id":"a"}]}"#], "data", "name its field, as in 'data[].id'"),
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
        (&[r#"["a"]"#], "FileNames", "`names_field=\"[]\"`"),
        (&[r#"{"FileNames":["a"]}"#], "[]", "expected an array of names"),
        (&[r#"["a"] ["b"]"#], "[]", "trailing"),
        (&[r#"[{"id":"a"}]"#], "[].key", r#"it has: "id""#),
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
fn what_the_service_says_it_left_out_is_a_failure() {
    let whole = r#"{"FileNames":["a"],"LeftOut":"7"}"#; // another service's field
    let (url, _) = serve_pages(|_| whole.as_bytes().to_vec());
    assert!(copy(&url, ListGetOptions::default(), 2).0.report.complete);

    let left_out = [
        r#"{"FileNames":["a"],"NextMarker":"1","LeftOut":{"Directories":2}}"#,
        r#"{"FileNames":["b"],"LeftOut":{"Names":1,"Directories":0}}"#,
    ];
    let (url, _) = serve_pages(move |number| left_out[number].as_bytes().to_vec());
    let options = ListGetOptions { name: "{name}.x".to_owned(), ..ListGetOptions::default() };
    let (outcome, found) = copy(&url, options, 2);
    assert_eq!(names_of(&found), ["a.x", "b.x"]);
    let report = outcome.report;
    assert_eq!((report.run.listed, report.run.written, report.run.failed), (4, 2, 2));
    let mut failed = report.failures.iter().map(|failure| {
        assert_eq!(failure.kind, "read-failed");
        String::from_utf8_lossy(&failure.name).into_owned()
    });
    assert!(failed.any(|name| name == "2 directories that the service could not list"));
    assert!(report.failures.iter().any(|one| *one.name == *b"1 file with a name that the service could not list"));

    for broken in [r#"{"Names":-1}"#, r#"{"Directories":"3"}"#, r#"{"Directories":1e30}"#, r#"{"Names":1,"Names":0}"#] {
        let (url, _) = serve_pages(move |_| format!(r#"{{"FileNames":["a"],"LeftOut":{broken}}}"#).into_bytes());
        assert_eq!(copy(&url, ListGetOptions::default(), 2).0.error.expect(broken).kind(), Kind::Listing);
    }
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
