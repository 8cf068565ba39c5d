//! What a sink remembers of its destination.

use shoal_engine::journal::{Commit, DESTINATION, Durable, Journal, Location, OpenOptions, RunKey};
use shoal_engine::sink::{SinkState, StateRow};
use shoal_engine::{Error, Kind};

use crate::damage::execute;
use crate::{done, fast_dir, fold, open, run_key};

fn row(key: &str, value: Option<&str>) -> StateRow {
    (key.as_bytes().into(), value.map(|value| value.as_bytes().into()))
}

fn rows(journal: &Journal) -> Result<Vec<(String, String)>, Error> {
    let mut found = Vec::new();
    journal.each(&mut |key, value| {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        found.push((text(key), text(value)));
        Ok(())
    })?;
    Ok(found)
}

fn pairs(wanted: &[(&str, &str)]) -> Vec<(String, String)> {
    wanted.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn state_is_committed_with_the_partitions_that_it_is_about() {
    let dir = fast_dir();
    let (mut journal, _) = open(dir.path());
    assert!(rows(&journal).unwrap().is_empty());
    let state = vec![row("b", Some("2")), row("a", Some("1"))];
    let commit = Commit { done: vec![done(0, vec![])], fold: fold(1), state, ..Commit::default() };
    journal.commit(&commit, Durable::All).unwrap();
    // One that does not balance is refused as a whole.
    let mut odd = done(1, vec![]);
    odd.written += 1;
    let commit = Commit { done: vec![odd], state: vec![row("c", Some("3"))], ..Commit::default() };
    assert!(journal.commit(&commit, Durable::All).is_err());
    let commit = Commit { state: vec![row("a", None), row("b", Some("22"))], ..Commit::default() };
    journal.commit(&commit, Durable::These).unwrap();
    drop(journal);
    let (journal, standing) = open(dir.path());
    assert_eq!((rows(&journal).unwrap(), standing.frontier), (pairs(&[("b", "22")]), 1));
}

#[test]
fn state_belongs_to_the_destination_and_not_to_a_run() {
    let dir = fast_dir();
    let location = Location::File(dir.path().join("journal"));
    let to = |destination: &str, source: &str| {
        let mut key = RunKey { source: source.to_owned(), ..run_key() };
        key.options.push((DESTINATION.to_owned(), destination.to_owned()));
        Journal::open(&location, &key, &OpenOptions::default()).unwrap().0
    };
    for (destination, source, value) in [("/one", "a", "1"), ("/two", "a", "2"), ("/one", "b", "3")] {
        let mut journal = to(destination, source);
        journal.commit(&Commit { state: vec![row(source, Some(value))], ..Commit::default() }, Durable::All).unwrap();
    }
    assert_eq!(rows(&to("/one", "c")).unwrap(), pairs(&[("a", "1"), ("b", "3")]));
    let mut journal = to("/two", "a");
    journal.reset_listing().unwrap();
    assert_eq!(rows(&journal).unwrap(), pairs(&[("a", "2")]), "listed from the start, its files are still there");
}

#[test]
fn a_damaged_row_of_state_is_an_error() {
    for change in ["value = x'33'", "key = x'62'", "sum = sum + 1", "destination = '/other'"] {
        let dir = fast_dir();
        let (mut journal, _) = open(dir.path());
        journal.commit(&Commit { state: vec![row("a", Some("1"))], ..Commit::default() }, Durable::All).unwrap();
        drop(journal);
        execute(dir.path(), &format!("UPDATE state SET {change}"));
        let (journal, _) = open(dir.path());
        match change.starts_with("destination") {
            true => assert!(rows(&journal).unwrap().is_empty(), "another destination's"),
            false => assert_eq!(rows(&journal).unwrap_err().kind(), Kind::Journal, "{change}"),
        }
    }
}
