//! Objects: bytes, versions, ranges, pipelined requests, ids.

use crate::client::{Client, GRACE, serve, serve_with, synthetic, tree};
use crate::support::{ext4_in_seconds, in_private_mounts};
use shoal_engine::serve::{Content, Options, Server};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

#[test]
fn a_file_that_is_not_as_empty_as_it_says_is_no_empty_object() {
    let (_server, mut client) = serve("/proc/sys/kernel".as_ref());
    let answer = client.get("/get/ostype");
    assert_eq!(answer.status, 500, "{}", answer.text());
}

#[test]
fn head_conditions_and_ranges_follow_the_standard() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("digits"), "0123456789").unwrap();
    std::thread::sleep(Duration::from_millis(50)); // a file that has just changed has another tag in each answer
    let directory = serve_with(root.path(), Options::default());
    let objects = synthetic(3, 10);
    for (server, target, whole) in
        [(&directory, "/get/digits", "0123456789"), (&objects, "/get/object-000000002", "object-000")]
    {
        let mut client = Client::new(server.address());
        let head = client.ask("HEAD", target, "");
        assert_eq!((head.status, head.header("content-length")), (200, Some("10")));
        let tag = head.header("etag").unwrap().to_owned();
        assert!(tag.starts_with('"') && tag.ends_with('"'), "a strong tag: {tag}");
        assert_eq!(client.get(target).header("etag"), Some(tag.as_str()));

        let part = client.ask("GET", target, "Range: bytes=2-4\r\n");
        assert_eq!((part.status, part.text()), (206, &whole[2..5]));
        assert_eq!(part.header("content-range"), Some("bytes 2-4/10"));
        assert_eq!(client.ask("GET", target, "Range: bytes=-3\r\n").text(), &whole[7..]);
        let beyond = client.ask("GET", target, "Range: bytes=10-\r\n");
        assert_eq!((beyond.status, beyond.header("content-range")), (416, Some("bytes */10")));

        let same = format!("If-None-Match: \"x\", {tag}\r\n");
        assert_eq!(client.ask("GET", target, &same).status, 304);
        assert_eq!(client.ask("GET", target, "If-None-Match: \"x\"\r\n").text(), whole);
        assert_eq!(client.ask("GET", target, "If-Match: \"x\"\r\n").status, 412);
        assert_eq!(client.ask("GET", target, &format!("If-Match: {tag}\r\n")).text(), whole);
        let still = format!("Range: bytes=2-4\r\nIf-Range: {tag}\r\n");
        assert_eq!(client.ask("GET", target, &still).status, 206);
        let other = "Range: bytes=2-4\r\nIf-Range: \"x\"\r\n";
        assert_eq!(client.ask("GET", target, other).text(), whole);
        assert_eq!(client.ask("HEAD", "/get/none", "").status, 404);
        assert_eq!(client.get(target).text(), whole, "the connection is still in step");
    }
    let mut client = Client::new(directory.address());
    let before = client.get("/get/digits").header("etag").map(str::to_owned);
    fs::write(root.path().join("digits"), "9876543210").unwrap();
    let after = client.get("/get/digits");
    assert_eq!(after.text(), "9876543210");
    assert_ne!(after.header("etag"), before.as_deref());
}

#[test]
fn no_two_answers_with_one_tag_have_different_bytes_however_fast_a_file_changes() {
    let temp = tempfile::tempdir().unwrap();
    in_private_mounts(|| {
        // Where change times have long steps: a change within one shows in none of them.
        let root = ext4_in_seconds(temp.path());
        let path = root.join("file");
        fs::write(&path, [0; 40_000]).unwrap();
        let (_server, mut client) = serve(&root);
        let over = AtomicBool::new(false);
        let (mut told, mut versions) = (HashMap::new(), HashSet::new());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let file = fs::File::options().write(true).open(&path).unwrap();
                for (version, block) in (1..128).cycle().flat_map(|v: u8| (0..40).map(move |block| (v, block))) {
                    file.write_all_at(&[version; 1000], block * 1000).unwrap();
                    if over.load(Relaxed) {
                        return;
                    }
                }
            });
            let until = Instant::now() + Duration::from_secs(1);
            while Instant::now() < until {
                let answer = client.get("/get/file");
                if answer.status == 200 {
                    let (tag, text) = (answer.header("etag").unwrap().to_owned(), answer.text().to_owned());
                    versions.insert(text.clone());
                    told.entry(tag).or_insert_with(HashSet::new).insert(text);
                }
            }
            over.store(true, Relaxed);
        });
        assert!(versions.len() > 1, "the file did not change fast enough for this test");
        assert!(told.values().all(|texts| texts.len() == 1), "one tag, several contents");
    });
}

#[test]
fn large_objects_are_streamed_whole_and_in_part_also_with_requests_behind_them() {
    let root = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..3_000_001u32).flat_map(|i| i.to_le_bytes()).take(3_000_001).collect();
    fs::write(root.path().join("large"), &bytes).unwrap();
    let (server, mut client) = serve(root.path());
    let line = "GET /get/large HTTP/1.1\r\nHost: localhost\r\n";
    client.send(&format!("{line}\r\n{line}Range: bytes=1000000-2999999\r\n\r\n{line}\r\n"));
    // Not read at once, so that the service has to wait for its client.
    std::thread::sleep(Duration::from_millis(50));
    let whole = client.reply(false);
    assert_eq!(whole.header("accept-ranges"), Some("bytes"));
    assert!(whole.body == bytes);
    assert!(client.reply(false).body == bytes[1_000_000..3_000_000]);
    assert!(client.reply(false).body == bytes);
    let stats = server.stop(GRACE);
    assert_eq!((stats.requests, stats.bytes), (3, 2 * 3_000_001 + 2_000_000));

    let server = synthetic(1, 1_000_003);
    let whole = Client::new(server.address()).get("/get/object-000000000").body;
    let expected: Vec<u8> = b"object-000000000\n".iter().copied().cycle().take(1_000_003).collect();
    assert!(whole == expected);
    let mut client = Client::new(server.address());
    let part = client.ask("GET", "/get/object-000000000", "Range: bytes=70001-700000\r\n");
    assert!(part.body == expected[70_001..700_001]);
}

#[test]
fn random_contents_are_the_same_whole_streamed_and_in_part_and_have_a_tag_of_their_own() {
    let serve = |size| Server::start(Content::SyntheticRandom { count: 3, size }, Options::default()).unwrap();
    let (large, small) = (serve(1_000_003), serve(100));
    let mut client = Client::new(large.address());
    let whole = client.get("/get/object-000000002").body;
    assert_eq!(whole.len(), 1_000_003);
    let part = client.ask("GET", "/get/object-000000002", "Range: bytes=262143-700000\r\n");
    assert!(part.body == whole[262_143..=700_000]);
    let reply = Client::new(small.address()).get("/get/object-000000002");
    assert!(reply.body == whole[..100], "the size only cuts");
    assert_eq!(reply.header("etag"), Some("\"object-000000002-100-random\""));
    assert!(client.get("/get/object-000000001").body[..100] != whole[..100]);
}

#[test]
fn a_file_that_shrinks_while_it_is_sent_breaks_the_transfer() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("shrinks");
    // Far more than sockets buffer.
    fs::File::create(&path).unwrap().set_len(256 << 20).unwrap();
    let (_server, mut client) = serve(root.path());
    client.send("GET /get/shrinks HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let head = client.reply(true);
    assert_eq!(head.header("content-length"), Some("268435456"));
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1000).unwrap();
    let mut rest = client.read.len();
    let mut space = vec![0; 1 << 20];
    while let Ok(bytes @ 1..) = client.stream.read(&mut space) {
        rest += bytes;
    }
    assert!(rest < 256 << 20, "a broken transfer, not {rest} bytes");
}

#[test]
fn fifty_pipelined_requests_are_answered_in_order_with_their_ids() {
    let server = synthetic(1000, 100);
    let mut client = Client::new(server.address());
    let mut text = String::new();
    for i in 0..50 {
        let name = if i == 20 { "none".to_owned() } else { format!("object-{:09}", i * 7) };
        text += &format!("GET /get/{name} HTTP/1.1\r\nHost: localhost\r\nShoal-Request-Id: conn-7.{i}\r\n\r\n");
    }
    // Cut in the middle of a request: what is complete is answered without the rest.
    let (first, rest) = text.split_at(text.len() - 30);
    client.send(first);
    for i in 0..49 {
        let reply = client.reply(false);
        assert_eq!(reply.header("shoal-request-id"), Some(format!("conn-7.{i}").as_str()));
        if i == 20 {
            assert_eq!(reply.status, 404);
        } else {
            assert!(reply.text().starts_with(&format!("object-{:09}\n", i * 7)));
        }
    }
    client.send(rest);
    assert_eq!(client.reply(false).header("shoal-request-id"), Some("conn-7.49"));
}

#[test]
fn a_client_that_closes_its_half_still_gets_all_answers() {
    let server = synthetic(10, 20_000);
    let mut client = Client::new(server.address());
    client.send(&"GET /get/object-000000001 HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(40));
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    for _ in 0..40 {
        assert_eq!(client.reply(false).body.len(), 20_000);
    }
    assert!(client.is_closed());
}

#[test]
fn the_request_id_comes_back_on_every_kind_of_answer() {
    let (root, _) = tree(3);
    let (_server, mut client) = serve(root.path());
    for (method, target, headers, status) in [
        ("GET", "/list", "", 200),
        ("GET", "/get/f1", "", 200),
        ("HEAD", "/get/f1", "", 200),
        ("GET", "/get/f1", "If-None-Match: *\r\n", 304),
        ("GET", "/get/f1", "If-Match: \"x\"\r\n", 412),
        ("GET", "/get/f1", "Range: bytes=99-\r\n", 416),
        ("GET", "/get/none", "", 404),
        ("GET", "/elsewhere", "", 404),
        ("GET", "/get/../x", "", 400),
        ("GET", "/list?next-marker=x", "", 400),
        ("POST", "/list", "", 405),
        ("GET", "http://example.com/list", "", 403),
    ] {
        let reply = client.ask(method, target, &format!("{headers}Shoal-Request-Id: 4f\r\n"));
        assert_eq!(reply.status, status, "{method} {target}");
        assert_eq!(reply.header("shoal-request-id"), Some("4f"), "{method} {target}");
    }
    assert_eq!(client.get("/get/f1").header("shoal-request-id"), None);
}

#[test]
fn pipes_and_devices_are_never_opened() {
    use rustix::fs::{CWD, FileType, Mode, inotify, makedev, mknodat};
    let root = tempfile::tempdir().unwrap();
    let make = |name: &str, kind: FileType, device: u64| {
        mknodat(CWD, root.path().join(name), kind, Mode::RUSR | Mode::WUSR, device)
    };
    make("pipe", FileType::Fifo, 0).unwrap();
    // Making a device takes a privilege; where it lacks, the pipe alone shows it. 1:3 is /dev/null.
    let has_device = make("device", FileType::CharacterDevice, makedev(1, 3)).is_ok();
    fs::write(root.path().join("file"), "x").unwrap();
    let watch = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC).unwrap();
    let names = ["file", "pipe", "device"];
    for name in &names[..if has_device { 3 } else { 2 }] {
        inotify::add_watch(&watch, root.path().join(name), inotify::WatchFlags::OPEN).unwrap();
    }
    let opened = || {
        let mut space = [std::mem::MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&watch, &mut space);
        std::iter::from_fn(|| events.next().ok().map(|event| event.wd())).count()
    };
    let (_server, mut client) = serve(root.path());
    assert_eq!(client.get("/get/pipe").status, 404);
    assert_eq!(client.get("/get/device").status, 404);
    client.list(None);
    assert_eq!(opened(), 0);
    assert_eq!(client.get("/get/file").text(), "x");
    assert_eq!(opened(), 1, "what is opened is seen");
}
