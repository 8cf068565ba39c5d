//! `Transfer`: the one public entry; wires source, sink, options and journal into a run. The only part that sees all.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::engine::{FAILURES_SHOWN, Neighbour, Run, commit_state, nothing_matched};
use crate::error::{Error, Kind, Result};
use crate::fs::neighbour::{Pressure, lower_priority};
use crate::fs::private::PrivateDir;
use crate::fs::schedstat;
use crate::journal::{self, DESTINATION, Journal, LAYOUT, Location, Membership, OpenOptions, PART, RunKey, Standing};
use crate::object::{AttributeScope, Takes};
use crate::options::{Durability, Pass, Resume, TransferOptions};
use crate::part::Part;
use crate::report::{Progress, Reason, Report};
use crate::session::{Lease, local_clock};
use crate::sink::null::DryRun;
use crate::sink::{Sink, Start, Started};
use crate::source::Source;
use crate::source::part::divide;

/// How often a part looks whether the process that has the same part has ended.
const WAIT: Duration = Duration::from_millis(100);

/// How a run ended: the report always, and the error that stopped it, if one did.
#[derive(Debug)]
pub struct Outcome {
    /// What was done.
    pub report: Report,
    /// Why it could not go on, or `Kind::Interrupted`.
    pub error: Option<Error>,
}

/// A source, a sink and how to go about it.
///
/// ```
/// use shoal_engine::sink::memory::MemorySink;
/// use shoal_engine::source::memory::MemorySource;
/// use shoal_engine::transfer::Transfer;
/// use std::{ops::ControlFlow, sync::Arc};
///
/// let source = MemorySource::new(vec![vec![(b"hello.txt".to_vec(), b"hello".to_vec())]], 100);
/// let sink = MemorySink::new();
/// let outcome = Transfer::new(Arc::new(source), Arc::new(sink.clone()), Default::default())
///     .run(&mut |_progress| ControlFlow::Continue(()));
/// assert_eq!(outcome.report.run.written, 1);
/// ```
pub struct Transfer {
    source: Arc<dyn Source>,
    sink: Arc<dyn Sink>,
    options: TransferOptions,
    /// Options of the caller's own.
    bound: Vec<(String, String)>,
    machine: journal::Machine,
    batch: Option<u64>,
}

impl Transfer {
    /// Nothing happens before [`Transfer::run`].
    pub fn new(source: Arc<dyn Source>, sink: Arc<dyn Sink>, options: TransferOptions) -> Transfer {
        Transfer { source, sink, options, bound: Vec::new(), machine: journal::Machine::default(), batch: None }
    }

    /// Options of the caller's own that change the result, such as how a table is written: the journal compares them as it
    /// does the engine's.
    #[must_use]
    pub fn bound_to(mut self, options: impl IntoIterator<Item = (String, String)>) -> Transfer {
        self.bound.extend(options);
        self
    }

    /// For tests: what the machine says of itself, as of one that was restarted.
    #[doc(hidden)]
    #[must_use]
    pub fn on_machine(mut self, machine: journal::Machine) -> Transfer {
        self.machine = machine;
        self
    }

    /// For tests: a barrier for each so many objects.
    #[doc(hidden)]
    #[must_use]
    pub fn in_batches_of(mut self, objects: u64) -> Transfer {
        self.batch = Some(objects);
        self
    }

    /// Runs to the end on threads of its own, which it joins. `observer` is called on this thread about every 50 ms;
    /// `Break` stops the run as Ctrl-C does: what is committed is kept and the same run goes on later.
    pub fn run(self, observer: &mut dyn FnMut(&Progress) -> ControlFlow<()>) -> Outcome {
        let (options, job) = (self.options.clone(), self.options.part.and(self.sink.journal_dir()));
        let allow = options.allow_different_listings;
        let (reading, writing) = (self.source.properties(), self.sink.properties());
        let advised = |text: &str| writing.advised(&reading.advised(text));
        let mut outcome = self.run_alone(observer);
        if let (Some(job), None, true) = (job, &outcome.error, outcome.report.complete) {
            // After its own lock is released: of two parts that end at once, one sees the other.
            match journal::difference(&job) {
                Ok(None) => {
                    // A part may have none of the objects, but not all of them.
                    let sums = journal::sums(&job).ok().flatten().filter(|_| !options.allow_empty);
                    outcome.error = sums.and_then(|(total, skips)| nothing_matched(&total, &skips, &options, None));
                    outcome.report.complete = outcome.error.is_none();
                }
                Ok(Some(difference)) if allow && !difference.is_empty => {
                    outcome.report.notes.push(difference.to_error().why().to_owned());
                }
                Ok(Some(difference)) => {
                    outcome.report.complete = false;
                    outcome.error = Some(difference.to_error());
                }
                Err(error) => outcome.report.notes.push(format!("the other parts could not be looked at: {error}")),
            }
        }
        outcome.error = outcome.error.map(|error| error.reworded(advised));
        outcome.report.notes.iter_mut().chain(&mut outcome.report.not_listed).for_each(|note| *note = advised(note));
        outcome
    }

    fn run_alone(self, observer: &mut dyn FnMut(&Progress) -> ControlFlow<()>) -> Outcome {
        match self.prepare(observer) {
            Ok(Prepared::Dry { run, tries_again }) => {
                let (mut report, error) = run.run(observer);
                for counts in [&mut report.run, &mut report.total] {
                    counts.listed += tries_again;
                    counts.written += tries_again;
                }
                report.total = report.run;
                (report.dry_run, report.complete) = (true, false);
                Outcome { report, error }
            }
            Ok(Prepared::Run { run, _member }) => {
                let (report, error) = run.run(observer);
                Outcome { report, error }
            }
            Ok(Prepared::Complete(report)) => Outcome { report: *report, error: None },
            Err(error) => Outcome { report: Report::default(), error: Some(error) },
        }
    }

    fn prepare(self, observer: &mut dyn FnMut(&Progress) -> ControlFlow<()>) -> Result<Prepared> {
        let Transfer { source, sink, options, bound, machine, batch } = self;
        refuse_inside(&*source, &*sink)?;
        let takes = sink.properties().takes;
        refuse_attributes(&*source, takes, &options)?;
        let source = source.passed_to(takes).unwrap_or(source);
        let source = match options.part {
            Some(part) => divide(source, part),
            None => source,
        };
        let properties = source.properties();
        let files_max = crate::fs::limits::open_files_left()?;
        let location = location(&options, &*sink)?;
        if options.resume == Resume::Update && sink.journal_dir().is_none() {
            let why = "this destination stores nothing to compare with";
            return Err(Error::new(Kind::Config, why).hint("use a directory, or leave out `resume=\"update\"`"));
        }
        if options.resume == Resume::Failed && matches!(location, Location::Memory) {
            let why = "there are no recorded failures to retry: this destination has no journal";
            return Err(Error::new(Kind::Config, why).hint("pass one with `journal`"));
        }
        if let (Some(directory), Some(bits), false) =
            (sink.journal_dir(), source.root_mode(), options.resume == Resume::Failed || options.dry_run)
        {
            // Before the journal makes it, open to all. What goes wrong here goes wrong again there, and is told.
            let _ = crate::fs::dir::make_path_with(&directory, bits);
        }
        let (key, common) = run_keys(&*source, &*sink, &options, bound);
        let member = match &location {
            Location::Part(directory, part) if options.dry_run => {
                Membership::look(directory, *part, &common)?;
                None
            }
            Location::Part(directory, part) => Some(Membership::join(directory, *part, &common)?),
            _ => None,
        };
        let updates = sink.journal_dir().is_some();
        let syncs = properties.syncs && options.part.is_none() && updates && sink.properties().replaces;
        let open = OpenOptions { resume: options.resume, syncs, root: source.root(), machine };
        let auto = matches!(options.resume, Resume::Auto | Resume::Once);
        if options.dry_run {
            let (journal, mut standing, failures) = Journal::look(&location, &key, &open)?;
            if standing.pass == Pass::Update && !standing.sessions.is_empty() {
                let note =
                    "a dry run compares nothing: the update will skip those of these objects that have not changed";
                standing.notes.push(note.to_owned());
            }
            let finished = standing.completed_at.is_some();
            let retries = options.resume == Resume::Failed || auto && finished;
            let tries_again = if retries && !properties.once { failures } else { 0 };
            let sink: Arc<dyn Sink> = Arc::new(DryRun::new(sink));
            let (lease, local, started) = (Arc::new(Lease::unbounded()), local_clock(), Started::default());
            let neighbour = neighbour(&options);
            let run =
                Run { source, sink, options, journal, standing, started, lease, local, files_max, batch, neighbour };
            return Ok(Prepared::Dry { run: Box::new(run), tries_again });
        }
        let (mut journal, mut standing) = open_in_turn(&location, &key, &open, observer)?;
        if options.journal.is_some()
            && !standing.sessions.is_empty()
            && options.resume.pass().is_none()
            && !sink.has_begun()
        {
            let why = "the journal records earlier sessions for this destination, but nothing of them is there";
            return Err(Error::new(Kind::JournalMismatch, why)
                .on(&crate::display::escape(sink.identity().as_bytes()))
                .hint(
                    "was it deleted, or is its disk not mounted? to start over, use `resume=\"restart\"` or another \
                journal",
                ));
        }
        let is_finished = standing.completed_at.is_some();
        if auto && standing.totals.failed + standing.deferred > 0 {
            if properties.in_turn {
                // Also before the listing is finished, because its objects are passed anyway.
                if journal.retry_in_turn(sink.properties().replaces)? {
                    source.begin_retries(!is_finished);
                }
            } else if is_finished && !properties.once {
                journal.list_gaps_again()?;
                journal.retry_all_failed()?;
            }
            standing.take_up(&journal);
        }
        if standing.completed_at.is_some() && standing.deferred == 0 && auto {
            if !journal.is_durable() && options.durability != Durability::None {
                let note = "the committed objects were not synced, so a power cut can lose them: \
                `resume=\"restart\"` writes them durably, if the file system can";
                standing.notes.push(note.to_owned());
            }
            if standing.totals.written > 0 {
                standing.notes.extend(sink.look_again(&journal).map_err(Error::of_sink)?);
            }
            let again = if updates { "`resume=\"update\"`" } else { "`resume=\"restart\"`" };
            let report = Report {
                total: journal.totals(),
                complete: true,
                completed_before: standing.completed_at,
                not_listed: (options.resume != Resume::Once)
                    .then(|| format!("the source was not listed again (use {again})")),
                resumed_from: standing.totals.written,
                unchanged: journal.skips().of(Reason::Unchanged),
                edited: journal.skips().of(Reason::Edited),
                failures: journal.failures(FAILURES_SHOWN).filter_map(Result::ok).collect(),
                notes: standing.notes,
                ..Report::default()
            };
            return Ok(Prepared::Complete(Box::new(report)));
        }
        let lease = Arc::new(Lease::new());
        let local = local_clock();
        let start = Start {
            run: journal.run_number(),
            frontier: standing.frontier,
            deferred: standing.deferred,
            pass: standing.pass,
            sessions: std::mem::take(&mut standing.sessions),
            twice: properties.twice,
            keep_times: options.keep_times.unwrap_or(properties.has_times),
            lease: lease.clone(),
        };
        let mut started = sink.start(&start, &journal)?;
        journal.begin_session(started.began, started.volatile)?;
        commit_state(&mut journal, &*sink, std::mem::take(&mut started.state))?;
        let neighbour = neighbour(&options);
        let run = Run { source, sink, options, journal, standing, started, lease, local, files_max, batch, neighbour };
        Ok(Prepared::Run { run: Box::new(run), _member: member })
    }
}

/// Refuses an exact copy where a source or a destination has no owners and attributes.
fn refuse_attributes(source: &dyn Source, takes: Takes, options: &TransferOptions) -> Result<()> {
    let is_exact = takes.attributes == AttributeScope::All && source.properties().has_attributes;
    let (why, hint) = match options {
        _ if options.hard_links && !(takes.hard_links && source.properties().has_attributes) => {
            let why = "only a directory or file of this machine has hard links, and only a directory takes them";
            (why, "leave out `hard_links=True`")
        }
        _ if options.hard_links && options.part.is_some() => {
            ("the names of one file may be in several parts", "leave out `hard_links=True` or `part`")
        }
        _ if options.exact && !is_exact => (
            "only a directory or file of this machine can be copied exactly, into a directory",
            "leave out `exact=True`",
        ),
        _ if options.strict_attributes && !takes.links => {
            ("only a directory takes attributes", "leave out `strict_attributes=True`")
        }
        _ if options.exact && options.part.is_some() => (
            "a part cannot copy exactly: hard links and directories are of all parts",
            "leave out `exact=True` or `part`",
        ),
        _ => return Ok(()),
    };
    Err(Error::new(Kind::Config, why).hint(hint))
}

/// Where the journal of a run is. Refuses a part where parts cannot be told apart, and a run without parts beside them.
fn location(options: &TransferOptions, sink: &dyn Sink) -> Result<Location> {
    let Some(directory) = sink.journal_dir() else {
        return Ok(options.journal.clone().map_or(Location::Memory, Location::File));
    };
    let Some(part) = options.part else {
        // Before anything is written, and for a dry run. It is looked at again under the lock.
        // What else goes wrong here goes wrong again there, and is told.
        if let Ok(Some(shoal)) = PrivateDir::open(&directory) {
            shoal.keep_out_of_parts()?;
        }
        return Ok(options.journal.clone().map_or(Location::Directory(directory), Location::File));
    };
    if !sink.properties().parts {
        let why = "several parts cannot write to this destination";
        return Err(Error::new(Kind::Config, why)
            .on(&crate::display::escape(sink.identity().as_bytes()))
            .hint("use a directory, or leave out `part`"));
    }
    if options.journal.is_some() {
        let why = "the journals of parts are in the destination, where the parts find each other";
        return Err(Error::new(Kind::Config, why).hint("leave out `journal`"));
    }
    Ok(Location::Part(directory, part))
}

/// Opens the journal. While another process works on the same part, it waits for its end.
fn open_in_turn(
    location: &Location,
    key: &RunKey,
    options: &OpenOptions,
    observer: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
) -> Result<(Journal, Standing)> {
    let began = Instant::now();
    let mut waited = false;
    loop {
        match Journal::open(location, key, options) {
            Err(error) if error.kind() == Kind::JournalLocked && matches!(location, Location::Part(..)) => {
                if observer(&Progress::default()).is_break() {
                    return Err(Error::new(Kind::Interrupted, "interrupted while another process worked on this part"));
                }
                waited = true;
                std::thread::sleep(WAIT);
            }
            Ok((journal, mut standing)) if waited => {
                let seconds = began.elapsed().as_secs_f64();
                let note = format!("waited {seconds:.1} s for the end of another process that worked on this part");
                standing.notes.push(note);
                return Ok((journal, standing));
            }
            opened => return opened,
        }
    }
}

enum Prepared {
    Run {
        run: Box<Run>,
        /// Dropped after the run.
        _member: Option<Membership>,
    },
    /// Only looks; failures that the real run would try again.
    Dry {
        run: Box<Run>,
        tries_again: u64,
    },
    Complete(Box<Report>),
}

/// A destination inside the source would be its own source: the run would never end.
fn refuse_inside(source: &dyn Source, sink: &dyn Sink) -> Result<()> {
    let Some(destination) = sink.journal_dir().map(|path| crate::fs::dir::resolved_beyond(&path)) else {
        return Ok(());
    };
    if !source.lists_below(&destination) {
        return Ok(());
    }
    let why = "the destination is inside the source: shoal would read its own output";
    let shown = crate::display::escape(std::os::unix::ffi::OsStrExt::as_bytes(destination.as_os_str()));
    Err(Error::new(Kind::Config, why).on(&shown).hint(
        "choose a destination outside the source, or a glob that \
    excludes it",
    ))
}

/// What a run with `nice` needs of the system.
fn neighbour(options: &TransferOptions) -> Option<Neighbour> {
    let others_suffer = || -> Option<Box<dyn FnMut(Instant) -> bool>> {
        let mut pressure = Pressure::new()?;
        Some(Box::new(move |now| pressure.others_suffer(now, schedstat::waited)))
    };
    options.nice.then(|| Neighbour { lower: lower_priority, others_suffer: others_suffer() })
}

/// What binds a run to its journal: the source, and the options that change the result. The second is what all parts of
/// the job have in common.
fn run_keys(
    source: &dyn Source,
    sink: &dyn Sink,
    options: &TransferOptions,
    mut bound: Vec<(String, String)>,
) -> (RunKey, RunKey) {
    let globs = |globs: &[String]| serde_json::Value::from(globs).to_string();
    bound.extend([
        ("include".to_owned(), globs(&options.include)),
        ("exclude".to_owned(), globs(&options.exclude)),
        (LAYOUT.to_owned(), "names".to_owned()),
    ]);
    bound.extend(source.bound());
    for (name, is_set) in [("exact", options.exact), ("hard_links", options.hard_links && !options.exact)] {
        if is_set {
            bound.push((name.to_owned(), "true".to_owned()));
        }
    }
    if let Some(form) = sink.properties().form {
        bound.push(("form".to_owned(), form.to_owned()));
    }
    if options.journal.is_some() {
        // A journal inside its destination moves with it; one elsewhere must not be used for another destination.
        bound.push((DESTINATION.to_owned(), sink.identity()));
    }
    let common = RunKey { source: source.identity(), options: bound, secrets: source.secrets() };
    let mut key = common.clone();
    key.options.extend(options.part.map(|part: Part| (PART.to_owned(), part.to_string())));
    (key, common)
}

/// What the journal of a destination says.
///
/// # Errors
/// [`Kind::Journal`] when there is none, or it cannot be read.
pub fn status(destination: &Path) -> Result<journal::Status> {
    journal::status(destination)
}
