//! The listing: pages, markers, snapshots, names.

use crate::client::{Client, GRACE, serve, serve_with, synthetic, tree};
use shoal_engine::serve::{Content, Options, Server};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;

#[test]
fn a_synthetic_listing_adds_up_and_every_object_on_it_has_its_bytes() {
    let server = synthetic(2500, 40);
    let mut client = Client::new(server.address());
    let (names, pages) = client.list(None);
    assert_eq!(pages, 3);
    assert_eq!(names.len(), 2500);
    assert_eq!((names[0].as_str(), names[2499].as_str()), ("object-000000000", "object-000002499"));
    assert_eq!(client.page(Some("2000")).names.len(), 500);
    for name in names.iter().step_by(250) {
        let reply = client.get(&format!("/get/{name}"));
        assert_eq!(reply.status, 200);
        assert_eq!(reply.header("content-length"), Some("40"));
        assert_eq!(reply.text(), &format!("{name}\n{name}\n{name}\n")[..40]);
    }
    assert_eq!(client.get("/get/object-000002500").status, 404);
    assert_eq!(client.get("/list?next-marker=2501").status, 400);
    assert_eq!(client.get("/list?next-marker=x").status, 400);
    let stats = server.stop(GRACE);
    assert_eq!(stats.requests, 3 + 1 + 10 + 3);
    assert_eq!((stats.connections, stats.open_connections), (1, 0));
}

#[test]
fn an_empty_listing_is_one_page_without_names() {
    let root = tempfile::tempdir().unwrap();
    for server in [synthetic(0, 1), serve_with(root.path(), Options::default())] {
        let page = Client::new(server.address()).page(None);
        assert!(page.names.is_empty() && page.next.is_none());
    }
}

#[test]
fn a_directory_listing_is_sorted_and_complete_in_pages_and_does_not_change_while_it_is_read() {
    let (root, names) = tree(47);
    fs::create_dir(root.path().join(".SHOAL")).unwrap();
    fs::write(root.path().join(".SHOAL/journal.db"), "private").unwrap();
    fs::create_dir(root.path().join("deep")).unwrap();
    let server = serve_with(root.path(), Options { page_size: 10, ..Options::default() });
    let mut client = Client::new(server.address());
    let first = client.page(None);
    assert_eq!(first.names.len(), 10);
    fs::write(root.path().join("f00 later"), "not in this listing").unwrap();
    let (rest, pages) = client.list(first.next);
    assert_eq!(pages, 4);
    assert_eq!([first.names, rest].concat(), names);
    assert_eq!(client.list(None).0.len(), 48);
    for name in &names {
        assert_eq!(client.get(&format!("/get/{name}")).text(), format!("content of {name}"));
    }
    assert_eq!(client.get("/get/.SHOAL/journal.db").status, 404);
    assert_eq!(client.get("/get/.shoal/journal.db").status, 404);
    assert_eq!(client.get("/get/deep").status, 404, "a directory is no object");
}

#[test]
fn a_marker_goes_on_after_a_restart_where_it_was_although_files_came_and_went() {
    let (root, names) = tree(60);
    let options = Options { page_size: 7, ..Options::default() };
    let server = serve_with(root.path(), options.clone());
    let first = Client::new(server.address()).page(None);
    drop(server);
    // The last name given is gone, and one that sorts before it is new.
    fs::remove_file(root.path().join(&first.names[6])).unwrap();
    fs::write(root.path().join("a new one"), "").unwrap();
    let server = serve_with(root.path(), options);
    let mut client = Client::new(server.address());
    let (rest, _) = client.list(first.next.clone());
    assert_eq!(rest, names[7..]);
    // The old marker again: the same page, from the snapshot taken for it.
    assert_eq!(client.page(first.next.as_deref()).names, names[7..14]);
}

#[test]
fn a_spilled_snapshot_gives_the_same_pages() {
    let (root, names) = tree(200);
    let temp = tempfile::tempdir().unwrap();
    let options =
        Options { page_size: 9, names_in_memory: 16, temp_dir: Some(temp.path().to_owned()), ..Options::default() };
    let server = serve_with(root.path(), options);
    let mut client = Client::new(server.address());
    assert_eq!(client.list(None), (names, 200usize.div_ceil(9)));
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0, "the temporary file has no name");
}

#[test]
fn a_snapshot_that_cannot_be_spilled_is_an_error_and_not_a_short_listing() {
    let (root, _) = tree(20);
    let options = Options { names_in_memory: 16, temp_dir: Some(root.path().join("missing")), ..Options::default() };
    let server = serve_with(root.path(), options);
    let reply = Client::new(server.address()).get("/list");
    assert_eq!(reply.status, 500);
    assert!(reply.text().contains("temporary files"), "{}", reply.text());
}

#[test]
fn names_that_no_json_can_hold_links_and_pipes_are_left_out_and_counted() {
    let (root, names) = tree(10);
    fs::write(root.path().join(OsStr::from_bytes(b"bad\xff")), "").unwrap();
    let bad_directory = root.path().join(OsStr::from_bytes(b"dir\xfe"));
    fs::create_dir(&bad_directory).unwrap();
    fs::write(bad_directory.join("inside"), "still there").unwrap();
    symlink("f1", root.path().join("link")).unwrap();
    let socket = std::os::unix::net::UnixListener::bind(root.path().join("socket")).unwrap();
    let (server, mut client) = serve(root.path());
    assert_eq!(client.list(None).0, names);
    let stats = server.stats();
    assert_eq!((stats.unlistable_names, stats.not_files), (2, 2));
    // It can be asked for all the same.
    assert_eq!(client.get("/get/dir%fe/inside").text(), "still there");
    assert_eq!(client.get("/get/socket").status, 404);
    drop(socket);
}

#[test]
fn odd_names_are_listed_and_served_under_exactly_that_name() {
    let root = tempfile::tempdir().unwrap();
    let odd = ["CON", "x\u{1b}[31m", "new\nline", "a b", "%2e", "日本語", "q\"uo\\te", "+&=?#"];
    for name in odd {
        fs::write(root.path().join(name), name).unwrap();
    }
    fs::write(root.path().join("l".repeat(255)), "long").unwrap();
    let (_server, mut client) = serve(root.path());
    let listed: BTreeSet<String> = client.list(None).0.into_iter().collect();
    assert_eq!(listed.len(), odd.len() + 1);
    for name in odd {
        assert!(listed.contains(name), "{name:?}");
        let encoded: String = name.bytes().map(|byte| format!("%{byte:02x}")).collect();
        assert_eq!(client.get(&format!("/get/{encoded}")).text(), name);
    }
    assert_eq!(client.get(&format!("/get/{}", "l".repeat(255))).text(), "long");
}

#[test]
fn paths_and_fields_can_be_named_otherwise() {
    let options = Options {
        page_size: 2,
        list_path: "/v2/names".to_owned(),
        get_path: "/v2/names/of/".to_owned(),
        marker_param: "after".to_owned(),
        names_field: "names".to_owned(),
        next_field: "next".to_owned(),
        ..Options::default()
    };
    let server = Server::start(Content::Synthetic { count: 3, size: 3 }, options).unwrap();
    let mut client = Client::new(server.address());
    assert_eq!(client.get("/v2/names").text(), r#"{"names":["object-000000000","object-000000001"],"next":"2"}"#);
    assert_eq!(client.get("/v2/names?a=b&after=2").text(), r#"{"names":["object-000000002"]}"#);
    assert_eq!(client.get("/v2/names/of/object-000000001").text(), "obj");
    assert_eq!(client.get("/list").status, 404);
}
