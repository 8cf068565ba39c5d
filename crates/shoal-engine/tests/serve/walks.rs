//! When the directory is read for a listing: which requests share that, and what is said of a tree that moves.

use crate::client::{Client, serve, serve_with, tree, wait_until};
use shoal_engine::serve::Options;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A tree that takes some hundredths of a second to read, and has two pages of one name.
fn slow_tree() -> (tempfile::TempDir, Options) {
    // In memory where that is possible: on a disk, making it takes longer than the test.
    let root = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    for i in 0..20_000 {
        fs::create_dir(root.path().join(format!("d{i}"))).unwrap();
    }
    for name in ["a", "b"] {
        fs::write(root.path().join(name), "").unwrap();
    }
    (root, Options { page_size: 1, ..Options::default() })
}

const LIST: &str = "GET /list HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// The number of the walk that a first page comes from: the second field of its marker.
fn walk_of(marker: Option<&str>) -> u64 {
    u64::from_str_radix(marker.unwrap().split('.').nth(1).unwrap(), 16).unwrap()
}

fn listed(client: &mut Client) -> u64 {
    let page: serde_json::Value = serde_json::from_slice(&client.reply(false).body).unwrap();
    walk_of(page["NextMarker"].as_str())
}

#[test]
fn requests_that_wait_when_a_walk_begins_share_it() {
    let (root, options) = slow_tree();
    let server = serve_with(root.path(), options);
    let mut clients: Vec<_> = (0..40).map(|_| Client::new(server.address())).collect();
    clients.iter_mut().for_each(|client| client.send(LIST));
    let walks: BTreeSet<u64> = clients.iter_mut().map(listed).collect();
    assert!(walks.len() < 10, "{walks:?}");
}

#[test]
fn clients_that_have_left_cost_no_walk_and_keep_no_connection() {
    let (root, options) = slow_tree();
    let server = serve_with(root.path(), options);
    let mut first = Client::new(server.address());
    first.send(LIST);
    for _ in 0..100 {
        Client::new(server.address()).send(LIST);
    }
    let mut last = Client::new(server.address());
    last.send(LIST);
    assert_eq!(listed(&mut first), 0);
    let walk = listed(&mut last);
    assert!(walk < 10, "{walk} walks before the one of the client that waits");
    wait_until(|| server.stats().open_connections == 2);
}

#[test]
fn a_client_that_left_too_early_finds_its_listing_when_it_tries_again() {
    let (root, options) = slow_tree();
    for _ in 0..20 {
        let server = serve_with(root.path(), options.clone());
        let asked = Instant::now();
        Client::new(server.address()).send(LIST);
        std::thread::sleep(Duration::from_millis(5));
        let mut again = Client::new(server.address());
        again.send(LIST);
        assert_eq!(listed(&mut again), 0);
        // And another time, as long as the listing is young: for 5 s. On a busy machine, this may take longer.
        again.send(LIST);
        let walk = listed(&mut again);
        if asked.elapsed() < Duration::from_secs(5) {
            assert_eq!(walk, 0);
            return;
        }
    }
    panic!("the machine is too busy");
}

#[test]
fn a_listing_shows_all_that_was_there_before_it_was_asked_for() {
    let (root, names) = tree(5);
    let (_server, mut client) = serve(root.path());
    assert_eq!(client.list(None).0.len(), names.len());
    for new in 1..=20 {
        fs::write(root.path().join(format!("new {new}")), "").unwrap();
        assert_eq!(client.list(None).0.len(), names.len() + new);
    }
}

#[test]
fn the_marker_of_a_dropped_snapshot_goes_on_behind_its_name() {
    let (root, names) = tree(30);
    let server = serve_with(root.path(), Options { page_size: 5, snapshots_kept: 2, ..Options::default() });
    let mut client = Client::new(server.address());
    let used = client.page(None).next.unwrap();
    let unused = client.page(None).next.unwrap();
    assert_eq!(client.page(Some(&used)).names, names[5..10]);
    for _ in 0..5 {
        client.page(None);
        assert_eq!(client.page(Some(&used)).names, names[5..10]);
    }
    fs::remove_file(root.path().join(&names[4])).unwrap();
    assert_eq!(client.list(Some(unused)).0, names[5..]);
}

#[test]
fn markers_that_were_tampered_with_are_refused() {
    let (root, _) = tree(30);
    let server = serve_with(root.path(), Options { page_size: 5, ..Options::default() });
    let mut client = Client::new(server.address());
    let marker = client.page(None).next.unwrap();
    let with = |at: usize, text: &str| {
        let mut fields: Vec<&str> = marker.split('.').collect();
        fields[at] = text;
        fields.join(".")
    };
    // A place inside a name, a snapshot that was never taken, no marker at all.
    for bad in [&with(2, "1"), &with(1, "7"), "x", "1.2.3", "1.2.3.4", "1.2.3.44.5", "%ff", "%zz"] {
        assert_eq!(client.get(&format!("/list?next-marker={bad}")).status, 400, "{bad}");
    }
}

#[test]
fn a_marker_of_another_directory_is_refused_after_a_restart_and_one_of_the_same_goes_on() {
    let (one, names) = tree(30);
    let (other, _) = tree(30);
    let options = Options { page_size: 5, ..Options::default() };
    let marker = Client::new(serve_with(one.path(), options.clone()).address()).page(None).next.unwrap();

    let server = serve_with(other.path(), options.clone());
    let reply = Client::new(server.address()).get(&format!("/list?next-marker={marker}"));
    assert_eq!(reply.status, 410, "{}", reply.text());
    assert!(reply.text().contains("another directory"), "{}", reply.text());

    let moved = other.path().join("moved");
    fs::rename(one.path(), &moved).unwrap();
    let server = serve_with(&moved, options);
    assert_eq!(Client::new(server.address()).list(Some(marker)).0, names[5..]);
    fs::rename(&moved, one.path()).unwrap();
}

/// The last page from a marker on.
fn last_page(client: &mut Client, mut marker: Option<String>) -> serde_json::Value {
    loop {
        let target = marker.map_or("/list".to_owned(), |marker| format!("/list?next-marker={marker}"));
        let page: serde_json::Value = serde_json::from_slice(&client.get(&target).body).unwrap();
        marker = page.get("NextMarker").map(|marker| marker.as_str().unwrap().to_owned());
        if marker.is_none() {
            return page;
        }
        assert!(page.get("LeftOut").is_none(), "on the last page alone: {page}");
    }
}

/// Makes directories below one another until the path is too long for one system call.
fn too_deep(root: &Path) {
    use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
    let name = "d".repeat(250);
    let mut at = openat(CWD, root, OFlags::DIRECTORY, Mode::empty()).unwrap();
    for _ in 0..17 {
        mkdirat(&at, &name, Mode::RWXU).unwrap();
        at = openat(&at, &name, OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
}

#[test]
fn what_a_listing_leaves_out_is_on_its_last_page_also_after_a_restart_and_a_dropped_snapshot() {
    let (root, _) = tree(10);
    let options = Options { page_size: 4, snapshots_kept: 1, ..Options::default() };
    let bad = root.path().join(std::ffi::OsStr::from_bytes(b"bad\xff"));
    fs::write(&bad, "").unwrap();
    too_deep(root.path());
    let server = serve_with(root.path(), options.clone());
    let mut client = Client::new(server.address());
    let told = serde_json::json!({"Names": 1, "Directories": 1});
    assert_eq!(last_page(&mut client, None)["LeftOut"], told);
    assert_eq!((server.stats().unlistable_names, server.stats().unreadable_directories), (1, 1));

    // A part of the listing has been given, and lacks them: that they are there no more changes nothing.
    let marker = client.page(None).next;
    fs::remove_file(bad).unwrap();
    fs::remove_dir_all(root.path().join("d".repeat(250))).unwrap();
    assert!(last_page(&mut client, None).get("LeftOut").is_none());
    assert_eq!(last_page(&mut client, marker.clone())["LeftOut"], told, "a dropped snapshot");
    drop(server);
    let server = serve_with(root.path(), options);
    assert_eq!(last_page(&mut Client::new(server.address()), marker)["LeftOut"], told, "a restart");
}

#[test]
fn a_directory_that_moves_while_the_tree_is_read_is_listed_or_told() {
    let root = tempfile::tempdir().unwrap();
    for i in 0..300 {
        fs::create_dir(root.path().join(format!("d{i}"))).unwrap();
    }
    let (here, there) = (root.path().join("moves-here"), root.path().join("moves-there"));
    fs::create_dir(&here).unwrap();
    (0..50).for_each(|i| fs::write(here.join(i.to_string()), "").unwrap());
    let (_server, mut client) = serve(root.path());
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !end.load(Ordering::Relaxed) {
                fs::rename(&here, &there).unwrap();
                std::thread::sleep(Duration::from_micros(300));
                fs::rename(&there, &here).unwrap();
                std::thread::sleep(Duration::from_micros(300));
            }
        });
        let pages: Vec<_> = (0..300).map(|_| last_page(&mut client, None)).collect();
        end.store(true, Ordering::Relaxed);
        for page in pages {
            let found = page["FileNames"].as_array().unwrap().len();
            let told = page["LeftOut"]["Directories"].as_u64().unwrap_or(0);
            assert!(found >= 50 || told > 0, "{found} of 50 files, and nothing is said of the others");
        }
    });
}

#[test]
fn snapshots_in_temporary_files_are_bounded_in_bytes() {
    let (root, _) = tree(400);
    let temp = tempfile::tempdir().unwrap();
    let options = Options {
        page_size: 9,
        names_in_memory: 16,
        temp_dir: Some(temp.path().to_owned()),
        snapshot_file_bytes: 0,
        ..Options::default()
    };
    let server = serve_with(root.path(), options);
    let mut client = Client::new(server.address());
    client.list(None);
    let one = bytes_in(temp.path());
    assert!(one > 1000);
    for _ in 0..10 {
        client.page(None);
        assert!(bytes_in(temp.path()) <= 2 * one, "{} bytes, where one snapshot has {one}", bytes_in(temp.path()));
    }
}

/// Bytes of the files without a name that this process holds open in a directory.
fn bytes_in(directory: &Path) -> u64 {
    let open = fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
    let ours = open.filter(|fd| fs::read_link(fd).is_ok_and(|target| target.starts_with(directory)));
    ours.filter_map(|fd| fs::metadata(fd).ok()).filter(|file| file.nlink() == 0).map(|file| file.len()).sum()
}

#[test]
fn a_page_ends_after_a_mebibyte_however_many_names_it_may_have() {
    let options = Options { page_size: 1_000_000, ..Options::default() };
    let content = shoal_engine::serve::Content::Synthetic { count: 120_000, size: 1 };
    let server = shoal_engine::serve::Server::start(content, options).unwrap();
    let mut client = Client::new(server.address());
    let length = client.get("/list").body.len();
    assert!((1 << 20..(1 << 20) + 100).contains(&length), "{length}");
    assert_eq!(client.list(None).0.len(), 120_000);
}
