//! Where the objects of a run of the model come from, and how that changes between its sessions.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use shoal_engine::Kind;
use shoal_engine::session::Twice;
use shoal_engine::source::archive::{ArchiveOptions, Archives, ArchivesFrom, FormatsIn};
use shoal_engine::source::files::{Files, FilesFrom, FilesOptions, Paths};
use shoal_engine::source::memory::{Answer, MemorySource};
use shoal_engine::source::{Behind, Source};

use super::zip;

/// Objects in a partition of a source in memory.
const PARTITION: usize = 7;
/// 2001-09-09, long before any session.
const EPOCH: u64 = 1_000_000_000;

/// What kind of source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// A list/get service: its cursor keeps its meaning.
    Service { timed: bool },
    /// Names in an order that may be another one the next time.
    Names { timed: bool },
    /// Several objects may have one name.
    Conflict { timed: bool },
    /// The same, as of archives.
    Repeated,
    /// The same items in the same order, without times.
    Items,
    /// A directory.
    Tree,
    /// A list of paths.
    List,
    /// Zip archives of a glob.
    Archives,
}

/// One object. `page`: of a service its page, of archives its archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    pub page: u32,
    pub name: String,
    pub number: u32,
    pub bytes: Vec<u8>,
    pub time: u64,
}

impl Object {
    fn locator(&self) -> Vec<u8> {
        format!("{}\0{}", self.name, self.number).into_bytes()
    }

    fn modified(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(EPOCH + 2 * self.time)
    }
}

/// What a fetch answers, the same in every session, until what is wrong is mended.
pub fn fate(locator: &[u8], count: u32) -> Answer {
    match (locator.iter().map(|&b| u32::from(b)).sum::<u32>() % 41, count) {
        (0 | 1, _) => Answer::Fail(Kind::Forbidden),
        (2, 1) => Answer::Fail(Kind::Disconnected),
        (3, 1) => Answer::Broken(Kind::ShortBody),
        (4 | 5, 1) => Answer::GivenBack,
        (6..=9, _) => Answer::Pieces(3),
        (10, _) => Answer::Withdrawn { kind: Kind::ShortBody, at_end: false },
        (11, _) => Answer::Withdrawn { kind: Kind::ShortBody, at_end: true },
        _ => Answer::Whole,
    }
}

pub struct Origin {
    pub of: Of,
    identity: String,
    /// In the order in which they are listed, pages together; of a tree and of archives the source has its own order.
    pub objects: Vec<Object>,
    directory: PathBuf,
    /// All bytes that an object of a name ever had.
    pub ever: HashMap<String, HashSet<Vec<u8>>>,
    /// What was wrong with objects is mended.
    pub healed: Arc<AtomicBool>,
    numbers: u32,
    replaced: u32,
    /// What is in another directory, which may take the place of this one.
    other_root: Option<Vec<Object>>,
}

impl Origin {
    /// Makes a source with some objects. `directory`: where it may keep files.
    pub fn new(of: Of, identity: &str, directory: PathBuf, random: &mut fastrand::Rng) -> Origin {
        std::fs::create_dir_all(&directory).unwrap();
        let (objects, ever, healed) = (Vec::new(), HashMap::new(), Arc::default());
        let identity = identity.into();
        let mut origin =
            Origin { of, identity, objects, directory, ever, healed, numbers: 0, replaced: 0, other_root: None };
        let pages = match of {
            Of::Archives => random.u32(1..4) + if random.u32(0..6) == 0 { 105 } else { 0 },
            Of::Tree | Of::List => 1,
            _ => random.u32(1..7),
        };
        for page in 0..pages {
            let count = match of {
                Of::Tree | Of::List if random.u32(0..4) == 0 => random.u32(90..240),
                Of::Archives if pages > 100 => 1,
                Of::Archives if random.u32(0..6) == 0 => random.u32(90..230),
                Of::Archives => random.u32(1..30),
                _ => random.u32(0..30),
            };
            origin.add(page, count, random);
        }
        if of == Of::List {
            // What the others are called by is below the directory of this one.
            let object = origin.object(0, "anchor".into(), random);
            origin.push(object);
            for name in ["Cargo.toml", "src/part.rs"] {
                let bytes = std::fs::read(name).unwrap(); // of this crate, which the tests run in
                origin.push(Object { page: 1, name: name.into(), number: 0, bytes, time: 0 });
            }
        }
        origin.store();
        origin
    }

    /// Whether one name may mean several objects.
    pub fn may_repeat(&self) -> bool {
        matches!(self.of, Of::Conflict { .. } | Of::Repeated | Of::Items | Of::List | Of::Archives)
    }

    pub fn is_in_memory(&self) -> bool {
        !matches!(self.of, Of::Tree | Of::List | Of::Archives)
    }

    /// Whether its files get times.
    pub fn is_timed(&self) -> bool {
        !matches!(
            self.of,
            Of::Service { timed: false } | Of::Names { timed: false } | Of::Conflict { timed: false } | Of::Items
        )
    }

    fn push(&mut self, object: Object) {
        self.ever.entry(object.name.clone()).or_default().insert(object.bytes.clone());
        self.objects.push(object);
    }

    fn add(&mut self, page: u32, count: u32, random: &mut fastrand::Rng) {
        for _ in 0..count {
            let known = self.objects.last().filter(|_| random.u32(0..12) == 0).map(|object| object.name.clone());
            let number = random.u32(0..300);
            let mut name = known.unwrap_or_else(|| match random.u32(0..20) {
                0..4 => format!("dir-{}/file-{number}", number % 3),
                4 if self.is_in_memory() => format!("../escape-{number}"),
                5 if self.of == Of::List => ["Cargo.toml", "src/part.rs"][number as usize % 2].into(),
                _ => format!("file-{number}"),
            });
            self.numbers += 1;
            let listed = |object: &&Object| object.name == name;
            match self.of {
                Of::Tree | Of::List if self.objects.iter().any(|object| listed(&object)) => {
                    name = format!("dir-{}/more-{}", number % 3, self.numbers);
                }
                Of::Archives if self.objects.iter().filter(listed).any(|object| object.page == page) => continue,
                _ => {}
            }
            let object = self.object(page, name, random);
            self.push(object);
        }
    }

    fn object(&mut self, page: u32, name: String, random: &mut fastrand::Rng) -> Object {
        // Where a name is one object, it is the same one wherever it is listed.
        if !self.may_repeat()
            && let Some(same) = self.objects.iter().find(|object| object.name == name)
        {
            return Object { page, ..same.clone() };
        }
        let number = if self.may_repeat() { self.numbers } else { 0 };
        let length = [0, 30, 30, 30, 100, 5_000][random.usize(0..6)];
        let bytes = format!("{name} {number};").into_bytes().into_iter().cycle().take(length).collect();
        Object { page, name, number, bytes, time: u64::from(random.u32(0..3)) }
    }

    pub fn build(&self) -> Arc<dyn Source> {
        match self.of {
            Of::Tree => Arc::new(Files::new(FilesFrom::Path(self.directory.clone()), FilesOptions::default()).unwrap()),
            Of::List => {
                let path = |object: &Object| match object.page {
                    0 => self.directory.join(&object.name),
                    _ => PathBuf::from(&object.name),
                };
                let paths: Paths =
                    self.objects.iter().map(|object| path(object).as_os_str().as_bytes().to_vec()).collect();
                Arc::new(Files::new(FilesFrom::Paths(paths), FilesOptions::default()).unwrap())
            }
            Of::Archives => {
                let glob = self.directory.join("*.zip").to_str().unwrap().to_owned();
                let archives = Archives::new(ArchivesFrom::Pattern(glob), FormatsIn::Zip, ArchiveOptions::default());
                Arc::new(archives.unwrap())
            }
            _ => Arc::new(self.in_memory()),
        }
    }

    fn in_memory(&self) -> MemorySource {
        let (twice, behind) = match self.of {
            Of::Service { .. } => (Twice::SameObject, Behind::Trusted),
            Of::Items => (Twice::Conflict, Behind::Trusted),
            Of::Conflict { .. } => (Twice::Conflict, Behind::Names),
            Of::Repeated => (Twice::Repeated, Behind::Names),
            _ => (Twice::SameObject, Behind::Names),
        };
        let pages = self.objects.chunk_by(|a, b| a.page == b.page);
        let pages = pages.map(|page| page.iter().map(|o| (o.locator(), o.bytes.clone())).collect()).collect();
        let healed = self.healed.clone();
        let source = MemorySource::new(pages, PARTITION).named(&self.identity).numbered().twice(twice).behind(behind);
        let source = source.answering(move |locator, count| match fate(locator, count) {
            Answer::Fail(Kind::Forbidden) | Answer::Withdrawn { .. } if healed.load(Relaxed) => Answer::Whole,
            answer => answer,
        });
        let times: HashMap<_, _> = self.objects.iter().map(|o| (o.locator(), o.modified())).collect();
        match self.is_timed() {
            true => source.with_times(move |locator| times[locator]),
            false => source,
        }
    }

    /// Changes what is there, in a way that this kind of source may; what was done.
    pub fn change(&mut self, random: &mut fastrand::Rng) -> Option<&'static str> {
        let what = match self.of {
            Of::Items | Of::List => return None,
            Of::Service { .. } => {
                let page = self.next_page();
                self.add(page, random.u32(1..20), random);
                "pages are appended"
            }
            Of::Archives => self.change_archives(random),
            Of::Tree if random.u32(0..4) == 0 => return Some(self.change_root(random)),
            _ => match random.u32(0..6) {
                0 => {
                    random.shuffle(&mut self.objects);
                    let mut page = 0;
                    for object in &mut self.objects {
                        page += u32::from(random.u32(0..12) == 0);
                        object.page = page;
                    }
                    "everything is listed in another order"
                }
                1 => {
                    let page = self.objects.get(random.usize(0..self.objects.len().max(1))).map_or(0, |o| o.page);
                    let before = self.objects.len();
                    self.add(self.next_page(), random.u32(1..80), random);
                    let added = self.objects.split_off(before);
                    let at = self.objects.iter().position(|o| o.page == page).unwrap_or(0);
                    self.objects.splice(at..at, added);
                    "pages are inserted"
                }
                2 => {
                    let (page, pages) = (random.u32(0..3), random.u32(2..4));
                    self.objects.retain(|object| object.page % pages != page);
                    "pages are removed"
                }
                3 => {
                    let keep: Vec<bool> = self.objects.iter().map(|_| random.u32(0..5) > 0).collect();
                    let mut keep = keep.into_iter();
                    self.objects.retain(|_| keep.next().unwrap());
                    "objects are removed"
                }
                4 if self.is_timed() && !self.may_repeat() => self.rewrite(random),
                _ => {
                    let page = self.objects.last().map_or(0, |object| object.page);
                    self.add(page, random.u32(1..15), random);
                    "objects are appended"
                }
            },
        };
        self.store();
        Some(what)
    }

    /// New contents under an old name always have a new time.
    fn rewrite(&mut self, random: &mut fastrand::Rng) -> &'static str {
        let Some(at) = (!self.objects.is_empty()).then(|| random.usize(0..self.objects.len())) else {
            return "nothing";
        };
        self.replaced += 1;
        let old = self.objects[at].clone();
        let bytes = [format!("{} again ", self.replaced).into_bytes(), old.bytes.clone()].concat();
        let bytes = bytes[..old.bytes.len()].to_vec(); // of the same length
        for object in self.objects.iter_mut().filter(|object| object.name == old.name) {
            (object.bytes, object.time) = (bytes.clone(), 100 + u64::from(self.replaced));
        }
        self.ever.entry(old.name).or_default().insert(bytes);
        "an object is rewritten"
    }

    /// Some objects of the other root have other bytes, but the same size and time.
    fn change_root(&mut self, random: &mut fastrand::Rng) -> &'static str {
        let [other, aside] = ["other", "aside"].map(|name| self.directory.with_extension(name));
        if let Some(objects) = self.other_root.take() {
            std::fs::rename(&self.directory, &aside).unwrap();
            std::fs::rename(&other, &self.directory).unwrap();
            std::fs::remove_dir_all(aside).unwrap();
            self.objects = objects;
            return "another root takes the place of this one";
        }
        let mut objects = self.objects.clone();
        for object in objects.iter_mut().filter(|_| random.bool()) {
            self.replaced += 1;
            let text = format!("{} of another root, ", self.replaced);
            object.bytes = text.bytes().cycle().take(object.bytes.len()).collect();
            self.ever.entry(object.name.clone()).or_default().insert(object.bytes.clone());
        }
        std::fs::create_dir(&other).unwrap();
        objects.iter().for_each(|object| write(&other, object));
        self.other_root = Some(objects);
        "another root is made"
    }

    fn next_page(&self) -> u32 {
        self.objects.iter().map(|object| object.page + 1).max().unwrap_or(0)
    }

    fn change_archives(&mut self, random: &mut fastrand::Rng) -> &'static str {
        let pages: Vec<u32> = self.objects.iter().map(|o| o.page).collect::<BTreeSet<_>>().into_iter().collect();
        let some = pages.get(random.usize(0..pages.len().max(1))).copied();
        match (random.u32(0..3), some) {
            (0, Some(page)) if pages.len() > 1 => {
                self.objects.retain(|object| object.page != page);
                "an archive is removed"
            }
            (1, Some(page)) => {
                self.objects.retain(|object| object.page != page || random.bool());
                self.add(page, random.u32(1..60), random);
                "an archive is replaced"
            }
            _ => {
                self.add(self.next_page(), random.u32(1..130), random);
                "an archive is added"
            }
        }
    }

    /// Puts what is to be listed where the source finds it.
    fn store(&self) {
        match self.of {
            Of::Tree => {
                self.clear();
                self.objects.iter().for_each(|object| write(&self.directory, object)); // one by one, in this order
            }
            Of::List => self.objects.iter().filter(|o| o.page == 0).for_each(|object| write(&self.directory, object)),
            Of::Archives => self.store_archives(),
            _ => {}
        }
    }

    fn clear(&self) {
        std::fs::remove_dir_all(&self.directory).unwrap();
        std::fs::create_dir_all(&self.directory).unwrap();
    }

    /// Those that are the same are not touched.
    fn store_archives(&self) {
        let mut kept = HashSet::new();
        let pages: BTreeSet<u32> = self.objects.iter().map(|object| object.page).collect();
        for page in pages {
            let entries = self.objects.iter().filter(|object| object.page == page);
            let bytes = zip::zip(entries.map(|object| (object.name.as_str(), &object.bytes[..], object.time)));
            let path = self.directory.join(format!("{page}.zip"));
            if std::fs::read(&path).is_ok_and(|before| before == bytes) {
                kept.insert(path);
                continue;
            }
            let aside = self.directory.join("new");
            std::fs::write(&aside, bytes).unwrap();
            std::fs::rename(&aside, &path).unwrap();
            kept.insert(path);
        }
        for entry in std::fs::read_dir(&self.directory).unwrap() {
            let path = entry.unwrap().path();
            if !kept.contains(&path) {
                std::fs::remove_file(path).unwrap();
            }
        }
    }
}

fn write(directory: &Path, object: &Object) {
    let path = directory.join(&object.name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = std::fs::File::create(&path).unwrap();
    std::io::Write::write_all(&mut file, &object.bytes).unwrap();
    file.set_modified(object.modified()).unwrap();
}
