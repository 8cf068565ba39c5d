//! Parts of a job beside other parts, runs without parts and other jobs that begin at the same moment.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};
use std::thread::scope;

use shoal_engine::sink::dir::{DirOptions, DirSink};
use shoal_engine::sink::{Flush, Flushed, Sealed, Sink, SinkState, Start, Started, Wake, Writer};
use shoal_engine::source::memory::MemorySource;
use shoal_engine::transfer::{Outcome, Transfer};
use shoal_engine::{Error, Kind, Part, TransferOptions, journal};

fn copy(out: &Path, part: Option<(u32, u32)>, journal: Option<&Path>) -> Outcome {
    let page: Vec<_> = (0..30).map(|n| (format!("o-{n}").into_bytes(), vec![n; 10])).collect();
    let part = part.map(|(index, count)| Part::new(index, count).unwrap());
    let options = TransferOptions { part, journal: journal.map(Path::to_owned), ..TransferOptions::default() };
    let sink = DirSink::new(out, DirOptions::of(&options)).unwrap();
    Transfer::new(Arc::new(MemorySource::new(vec![page], 7)), Arc::new(sink), options)
        .run(&mut |_| ControlFlow::Continue(()))
}

/// Runs both at the same moment. Each is complete or refused.
fn at_once(one: impl FnOnce() -> Outcome + Send, other: impl FnOnce() -> Outcome + Send) -> [Result<u64, Kind>; 2] {
    let barrier = Barrier::new(2);
    let ended = |outcome: Outcome| match outcome.error {
        None => Ok(outcome.report.total.written),
        Some(error) => Err(error.kind()),
    };
    scope(|scope| {
        let first = scope.spawn(|| {
            barrier.wait();
            ended(one())
        });
        barrier.wait();
        let second = ended(other());
        [first.join().unwrap(), second]
    })
}

#[test]
fn of_a_part_and_a_run_without_parts_that_begin_at_once_exactly_one_is_accepted() {
    let temp = tempfile::tempdir().unwrap();
    let mut won = [0, 0];
    for round in 0..60 {
        let out = temp.path().join(round.to_string());
        let elsewhere = temp.path().join(format!("{round}.db"));
        let elsewhere = (round % 2 == 0).then_some(&*elsewhere);
        let [plain, part] = at_once(|| copy(&out, None, elsewhere), || copy(&out, Some((0, 2)), None));
        for (at, ended) in [plain, part].into_iter().enumerate() {
            match ended {
                Ok(_) => won[at] += 1,
                Err(kind) => assert!(matches!(kind, Kind::Config | Kind::JournalLocked), "{kind:?}"),
            }
        }
        assert!(plain.is_ok() != part.is_ok(), "round {round}: {plain:?}, {part:?}");
        // The other stays refused.
        let again = if plain.is_ok() { copy(&out, Some((1, 2)), None) } else { copy(&out, None, elsewhere) };
        assert_eq!(again.error.map(|error| error.kind()), Some(Kind::Config), "round {round}");
    }
    println!("without parts: {}, in parts: {}", won[0], won[1]);
}

#[test]
fn of_parts_of_two_jobs_that_begin_at_once_exactly_one_is_accepted() {
    let temp = tempfile::tempdir().unwrap();
    for round in 0..40 {
        let out = temp.path().join(round.to_string());
        let ended = at_once(|| copy(&out, Some((0, 2)), None), || copy(&out, Some((0, 3)), None));
        assert_eq!(ended.iter().filter(|ended| ended.is_ok()).count(), 1, "{ended:?}");
        assert!(ended.contains(&Err(Kind::JournalMismatch)), "{ended:?}");
    }
}

#[test]
fn of_the_same_part_twice_at_once_one_does_it_and_the_other_finds_it_done() {
    let temp = tempfile::tempdir().unwrap();
    let whole: u64 = (0..2)
        .map(|index| copy(&temp.path().join("whole"), Some((index, 2)), None))
        .map(|o| o.report.total.written)
        .sum();
    assert_eq!(whole, 30);
    for round in 0..20 {
        let out = temp.path().join(round.to_string());
        let ended = at_once(|| copy(&out, Some((1, 2)), None), || copy(&out, Some((1, 2)), None));
        assert!(ended[0].is_ok() && ended[0] == ended[1], "{ended:?}");
        let parts = journal::parts(&out).unwrap().unwrap();
        let status = parts.parts[1].journal.as_ref().unwrap();
        assert_eq!((status.runs.len(), status.runs[0].sessions), (1, 1), "round {round}");
        assert!(parts.parts[0].journal.is_none() && parts.parts[1].owner.is_none());
    }
}

/// A directory, written by a sink that knows nothing of parts.
struct Alone(PathBuf);

impl Sink for Alone {
    fn identity(&self) -> String {
        self.0.display().to_string()
    }
    fn journal_dir(&self) -> Option<PathBuf> {
        Some(self.0.clone())
    }
    fn start(&self, _start: &Start, _state: &dyn SinkState) -> Result<Started, Error> {
        panic!("it is started")
    }
    fn writer(&self, _lane: usize, _wake: Wake) -> Result<Box<dyn Writer>, Error> {
        panic!("it is written to")
    }
    fn flush(&self, _sealed: Vec<Sealed>, _reason: Flush) -> Result<Flushed, Error> {
        panic!("it is written to")
    }
}

#[test]
fn a_sink_that_does_not_know_parts_is_not_given_one() {
    let temp = tempfile::tempdir().unwrap();
    let out = temp.path().join("out");
    let options = TransferOptions { part: Some(Part::new(0, 2).unwrap()), ..TransferOptions::default() };
    let outcome = Transfer::new(Arc::new(MemorySource::new(vec![], 7)), Arc::new(Alone(out.clone())), options)
        .run(&mut |_| ControlFlow::Continue(()));
    let error = outcome.error.unwrap();
    assert!(error.kind() == Kind::Config && error.to_string().contains("several parts"), "{error}");
    assert!(!out.exists());
}

#[test]
fn a_damaged_job_file_and_one_of_a_later_version_are_refused_with_the_path() {
    let temp = tempfile::tempdir().unwrap();
    let out = temp.path().join("out");
    assert!(copy(&out, Some((0, 2)), None).error.is_none());
    let job = out.join(".shoal/parts/job");
    let whole = std::fs::read_to_string(&job).unwrap();
    for wrong in [&whole[..whole.len() / 2], "", &whole.replace("\"format\":1", "\"format\":9")] {
        std::fs::write(&job, wrong).unwrap();
        let error = copy(&out, Some((1, 2)), None).error.unwrap();
        assert_eq!(error.kind(), Kind::Journal);
        assert!(error.to_string().contains("parts/job"), "{error}");
        assert!(journal::parts(&out).is_err());
    }
    std::fs::write(&job, whole).unwrap();
    assert!(copy(&out, Some((1, 2)), None).error.is_none());
}
