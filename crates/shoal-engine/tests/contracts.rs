//! The contract suites on every source. (Those on every sink are in `sinks.rs`, beside what only sinks promise.)

#[path = "support/zip.rs"]
mod zip;

use std::collections::BTreeMap;
use std::sync::Arc;

use shoal_engine::serve::{Content, Options, Server};
use shoal_engine::source::Source;
use shoal_engine::source::archive::{ArchiveOptions, Archives, ArchivesFrom, FormatsIn};
use shoal_engine::source::files::{Files, FilesFrom, FilesOptions, Links, Paths};
use shoal_engine::source::list_get::{ListGet, ListGetOptions};
use shoal_engine::source::memory::MemorySource;
use shoal_engine::source::part::OfPart;
use shoal_engine::source::urls::{Format, Lines, Urls, UrlsOptions};
use shoal_engine::testing::source_contract;
use shoal_engine::{Part, Storage};

#[test]
fn memory_keeps_the_contract_of_a_source() {
    let objects: Vec<_> = (0..500).map(|n| (format!("o-{n}").into_bytes(), vec![n as u8; n])).collect();
    let pages = objects.chunks(90).map(<[_]>::to_vec).collect();
    let source: Arc<dyn Source> = Arc::new(MemorySource::new(pages, 20));
    source_contract::run(&source, &objects.into_iter().collect());
}

#[test]
fn a_list_get_service_keeps_the_contract_of_a_source() {
    let directory = tempfile::tempdir().unwrap();
    let mut expected = BTreeMap::new();
    // Around every border: empty, one buffer, the largest that is handed in whole, larger.
    for size in [0, 1, 99, 16 << 10, (64 << 10) - 1, 64 << 10, (64 << 10) + 1, 1 << 20] {
        expected.insert(format!("sized/{size}").into_bytes(), (0..size).map(|n| (n % 251) as u8).collect::<Vec<u8>>());
    }
    for number in 0..450 {
        expected.insert(format!("odd %2e name?{number}&#x=+ü").into_bytes(), number.to_string().into_bytes());
    }
    for (name, data) in &expected {
        let path = directory.path().join(std::str::from_utf8(name).unwrap());
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, data).unwrap();
    }
    let content = Content::Directory(directory.path().to_owned());
    let server = Server::start(content, Options { page_size: 130, ..Options::default() }).unwrap();
    let source: Arc<dyn Source> = Arc::new(ListGet::new(&server.url(), ListGetOptions::default()).unwrap());
    source_contract::run(&source, &expected);
}

#[test]
fn a_service_of_synthetic_objects_keeps_the_contract_of_a_source() {
    let content = Content::Synthetic { count: 777, size: 30 };
    let server = Server::start(content, Options { page_size: 250, ..Options::default() }).unwrap();
    let object = |number: usize| {
        let name = format!("object-{number:09}");
        let data = format!("{name}\n").bytes().cycle().take(30).collect();
        (name.into_bytes(), data)
    };
    let source: Arc<dyn Source> = Arc::new(ListGet::new(&server.url(), ListGetOptions::default()).unwrap());
    source_contract::run(&source, &(0..777).map(object).collect());
}

#[test]
fn a_list_of_urls_keeps_the_contract_of_a_source() {
    let content = || Content::Synthetic { count: 777, size: 30 };
    let start = |last| {
        let bind = std::net::IpAddr::from([127, 0, 0, last]);
        Server::start(content(), Options { bind, ..Options::default() }).unwrap()
    };
    let servers: Vec<Server> = (1..6).map(start).collect();
    let mut list = String::from("# all of some hosts, one of the others\n");
    let mut expected = BTreeMap::new();
    for number in 0..777 {
        let (server, object) = (number % 3 + 2 * usize::from(number % 300 == 7), format!("object-{number:09}"));
        let url = format!("{}/get/{object}", servers[server].url());
        let name = match number % 2 {
            0 => format!("get/{object}"),
            _ => format!("odd %2e name?{number}&#x=+\u{fc}"),
        };
        list += &if number % 2 == 0 { format!("{url}\r\n") } else { format!("{name}\t{url}\n") };
        expected.insert(name.into_bytes(), format!("{object}\n").bytes().cycle().take(30).collect());
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), list).unwrap();
    for (per_host, ordered) in [(6, false), (1, false), (2, true)] {
        let options = UrlsOptions { per_host, ordered, ..UrlsOptions::default() };
        let lines = Lines::open(file.path(), &Format::Plain, None).unwrap();
        let source: Arc<dyn Source> = Arc::new(Urls::new(Box::new(lines), options).unwrap());
        source_contract::run(&source, &expected);
    }
}

/// A tree with files of every size around a border, in directories and between them.
fn tree(root: &std::path::Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut expected = BTreeMap::new();
    for size in [0, 1, 99, (64 << 10) - 1, 64 << 10, (64 << 10) + 1, 256 << 10, 1 << 20] {
        expected.insert(format!("sized/{size}").into_bytes(), (0..size).map(|n| (n % 251) as u8).collect::<Vec<u8>>());
    }
    for number in 0..450 {
        let name = format!("{}/deep/er/odd %2e name?{number}&#x=+\u{fc}", number % 7);
        expected.insert(name.into_bytes(), number.to_string().into_bytes());
        expected.insert(format!("{number}.top").into_bytes(), vec![b'x'; number]);
    }
    for (name, data) in &expected {
        let path = root.join(std::str::from_utf8(name).unwrap());
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, data).unwrap();
    }
    expected
}

#[test]
fn a_directory_of_files_keeps_the_contract_of_a_source() {
    let directory = tempfile::tempdir().unwrap();
    let expected = tree(directory.path());
    let from = FilesFrom::Path(directory.path().to_owned());
    let source: Arc<dyn Source> = Arc::new(Files::new(from, FilesOptions::default()).unwrap());
    source_contract::run(&source, &expected);
}

#[test]
fn a_glob_keeps_the_contract_of_a_source() {
    let directory = tempfile::tempdir().unwrap();
    let mut expected = tree(directory.path());
    expected.retain(|name, _| !name.ends_with(b".top"));
    let from = FilesFrom::Glob(format!("{}/*/**", directory.path().to_str().unwrap()));
    let source: Arc<dyn Source> = Arc::new(Files::new(from, FilesOptions { links: Some(Links::Follow) }).unwrap());
    source_contract::run(&source, &expected);
}

#[test]
fn a_list_of_paths_keeps_the_contract_of_a_source() {
    let directory = tempfile::tempdir().unwrap();
    let expected = tree(directory.path());
    let paths: Paths =
        expected.keys().map(|name| [directory.path().to_str().unwrap().as_bytes(), b"/", name].concat()).collect();
    let source: Arc<dyn Source> = Arc::new(Files::new(FilesFrom::Paths(paths), FilesOptions::default()).unwrap());
    source_contract::run(&source, &expected);
}

#[test]
fn zip_archives_keep_the_contract_of_a_source() {
    let directory = tempfile::tempdir().unwrap();
    let mut expected = tree(directory.path());
    let all: Vec<_> = expected.iter().map(|(name, data)| (name.clone(), data.clone())).collect();
    expected.clear();
    for (number, part) in all.chunks(400).enumerate() {
        let entry = |(name, data): &(Vec<u8>, Vec<u8>)| match data.len() % 2 {
            0 => zip::Entry::stored(name, data),
            _ => zip::Entry::deflated(name, data).described(),
        };
        let bytes = zip::Zip::of(part.iter().map(entry)).done();
        std::fs::write(directory.path().join(format!("{number}.archive")), bytes).unwrap();
        let below =
            |(name, data): &(Vec<u8>, Vec<u8>)| ([format!("{number}/").as_bytes(), name].concat(), data.clone());
        expected.extend(part.iter().map(below));
    }
    let from = ArchivesFrom::Pattern(format!("{}/*.archive", directory.path().to_str().unwrap()));
    let options = ArchiveOptions { into_subdirectories: true, ..ArchiveOptions::default() };
    let source: Arc<dyn Source> = Arc::new(Archives::new(from, FormatsIn::Any, options).unwrap());
    source_contract::run(&source, &expected);
}

#[test]
fn a_source_of_files_says_what_they_lie_on_and_so_does_a_part_of_it() {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    if !mounts.lines().any(|mount| mount.starts_with("tmpfs /dev/shm tmpfs ")) {
        return eprintln!("skipped: /dev/shm is no tmpfs");
    }
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let file = memory.path().join("a.zip");
    std::fs::write(&file, "").unwrap();
    let glob = memory.path().join("*.zip").into_os_string().into_string().unwrap();
    let paths = |paths: &[&str]| FilesFrom::Paths(paths.iter().collect());
    let gone = memory.path().join("gone").into_os_string().into_string().unwrap();
    for (number, from) in [
        FilesFrom::Path(memory.path().to_owned()),
        FilesFrom::Path(file.clone()),
        FilesFrom::Glob(glob.clone()),
        paths(&[&gone, "/proc/self/status"]), // of the first path, also where the file is not there any more
    ]
    .into_iter()
    .enumerate()
    {
        let source = Arc::new(Files::new(from, FilesOptions::default()).unwrap());
        assert_eq!(source.storage(), Storage::Memory, "{number}");
        assert_eq!(OfPart::new(source, Part::new(0, 2).unwrap()).storage(), Storage::Memory, "{number}");
    }
    for from in [ArchivesFrom::Paths(vec![file.clone()]), ArchivesFrom::Pattern(glob)] {
        let source = Archives::new(from, FormatsIn::Any, ArchiveOptions::default()).unwrap();
        assert_eq!(source.storage(), Storage::Other, "unpacking takes processors, whatever the archives lie on");
    }
    let elsewhere = Files::new(paths(&["/proc/self/status", &gone]), FilesOptions::default()).unwrap();
    assert_eq!(elsewhere.storage(), Storage::Other);
    assert_eq!(MemorySource::new(Vec::new(), 1).storage(), Storage::Other, "it has no files");
}
