//! Where a listing of archives goes on, and where it says that it cannot: what lies behind its cursor has changed.

use std::path::Path;
use std::sync::Arc;

use shoal_engine::source::archive::{ArchiveOptions, Archives, ArchivesFrom, FormatsIn};
use shoal_engine::source::part::OfPart;
use shoal_engine::source::{Behind, Source};
use shoal_engine::{Cursor, Kind, Partition};

use crate::writer::Tar;

/// Archives of one partition each, `300.tar` the first of them: the largest comes first.
const COUNT: usize = 300;

fn archive(entries: usize) -> Vec<u8> {
    let mut tar = Tar::new();
    (0..entries).for_each(|number| _ = tar.file(&format!("{number}"), b"data"));
    tar.end()
}

fn source(root: &Path) -> Arc<Archives> {
    let glob = root.join("*.tar").to_str().unwrap().to_owned();
    let options = ArchiveOptions { into_subdirectories: true, ..ArchiveOptions::default() };
    Arc::new(Archives::new(ArchivesFrom::Pattern(glob), FormatsIn::Tar, options).unwrap())
}

fn partitions(source: &dyn Source, after: Option<Cursor>) -> Result<Vec<Partition>, Kind> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut listing = source.list(after).map_err(|error| error.kind())?;
    let mut all = Vec::new();
    while let Some(partition) = runtime.block_on(listing.next()).map_err(|error| error.kind())? {
        all.push(partition);
    }
    Ok(all)
}

/// Archives in a directory, and the cursors of their pages.
fn listed() -> (tempfile::TempDir, Vec<Partition>, Vec<Cursor>) {
    let temp = tempfile::tempdir().unwrap();
    for number in 1..=COUNT {
        std::fs::write(temp.path().join(format!("{number}.tar")), archive(1 + number / 10)).unwrap();
    }
    let all = partitions(&*source(temp.path()), None).unwrap();
    assert_eq!(all.len(), COUNT);
    let cursors: Vec<_> = all.iter().filter_map(|partition| partition.next.clone()).collect();
    assert_eq!(cursors.len(), COUNT / 100);
    (temp, all, cursors)
}

#[test]
fn a_listing_goes_on_behind_archives_that_are_the_same() {
    let (temp, all, cursors) = listed();
    let source = source(temp.path());
    let part: Arc<dyn Source> = Arc::new(OfPart::new(source.clone(), shoal_engine::Part::new(0, 2).unwrap()));
    assert_eq!((source.properties().behind, part.properties().behind), (Behind::Proven, Behind::Proven));
    // The last of all went, and one came that ranks behind all others.
    std::fs::remove_file(temp.path().join("9.tar")).unwrap();
    std::fs::write(temp.path().join("0.tar"), b"small").unwrap();
    for (page, cursor) in cursors.iter().take(2).enumerate() {
        let rest = partitions(&*source, Some(cursor.clone())).unwrap();
        let before = (page + 1) * 100;
        assert_eq!(rest.len(), COUNT - before, "one is gone, one has come");
        let same = rest.iter().zip(&all[before..]).filter(|(new, old)| (new.seq, new.key) == (old.seq, old.key));
        assert_eq!(same.count(), COUNT - before - 1);
        assert_eq!(rest[0].after, *cursor);
    }
}

#[test]
fn an_archive_behind_the_cursor_that_is_new_gone_or_another_one_is_noticed() {
    type Change = fn(&Path);
    let changes: [(&str, Change); 5] = [
        ("a larger one came", |root| std::fs::write(root.join("new.tar"), archive(500)).unwrap()),
        ("one was removed", |root| std::fs::remove_file(root.join("250.tar")).unwrap()),
        ("one was renamed", |root| std::fs::rename(root.join("250.tar"), root.join("250b.tar")).unwrap()),
        ("one has grown", |root| std::fs::write(root.join("250.tar"), archive(600)).unwrap()),
        ("one was replaced by one of its size and time", |root| {
            let path = root.join("250.tar");
            let before = std::fs::metadata(&path).unwrap();
            let other = root.join("other");
            std::fs::write(&other, vec![0; before.len() as usize]).unwrap();
            std::fs::File::open(&other).unwrap().set_modified(before.modified().unwrap()).unwrap();
            std::fs::rename(&other, &path).unwrap();
        }),
    ];
    for (case, change) in changes {
        let (temp, _, cursors) = listed();
        change(temp.path());
        let source = source(temp.path());
        for cursor in cursors {
            let result = partitions(&*source, Some(cursor)).map(|all| all.len());
            assert_eq!(result, Err(Kind::CursorRefused), "{case}");
        }
        assert!(partitions(&*source, None).is_ok(), "{case}");
    }
}

#[test]
fn an_archive_that_the_cursor_is_in_is_another_one_when_it_has_changed() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("one.tar");
    std::fs::write(&path, archive(12_000)).unwrap();
    let source = source(temp.path());
    let before = partitions(&*source, None).unwrap();
    let cursor = before.iter().find_map(|partition| partition.next.clone()).unwrap();
    assert_eq!(partitions(&*source, Some(cursor.clone())).unwrap().len(), before.len() - 100);
    // The same bytes and time, written once more.
    let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
    std::fs::write(&path, archive(12_000)).unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    assert_eq!(partitions(&*source, Some(cursor)).map(|all| all.len()), Err(Kind::CursorRefused));
    let after = partitions(&*source, None).unwrap();
    assert!(before.iter().zip(&after).all(|(old, new)| old.key != new.key), "nothing passes for the same");
}
