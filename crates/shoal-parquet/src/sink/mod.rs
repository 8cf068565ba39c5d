//! `ParquetSink`: packs objects as rows of Parquet files.
//!
//! Lanes fill rows in memory (`writer.rs`, `rows.rs`). Threads of the sink encode them and append row groups to files in
//! `.shoal/tmp` (`shard.rs`, `group.rs`). About once a second, `flush` gives each changed file a footer, syncs it, and has
//! the journal remember its length (`commit.rs`, `state.rs`). So what is committed of a file is a complete Parquet file.
//! A file that is large or old enough is finished and renamed. After a kill, the next start cuts files to their committed
//! lengths (`recover.rs`). Then they are complete, and are published as they are.
//!
//! What is committed of a file is always whole partitions, so a partition that is fetched again is nowhere in it. The
//! rows of a partition that is too large for memory go to a file that no other partition uses at that time
//! (`shard.rs`). If a page has changed since a part of it was committed, names that are stored already are not
//! added again (`earlier.rs`).
//!
//! Rows of objects that become failures later are removed at the end of the session, or at the start of the next
//! (`mend.rs`, `withdrawn.rs`).

mod commit;
mod earlier;
mod failure;
mod group;
mod mend;
mod recover;
mod rows;
mod shard;
mod state;
mod withdrawn;
mod writer;

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use shoal_engine::fs::lock::Lock;
use shoal_engine::fs::neighbour::lower_priority;
use shoal_engine::fs::private::PrivateDir;
use shoal_engine::option::Type;
use shoal_engine::option::group::DESTINATION;
use shoal_engine::options::{Durability, Overwrite, Resume, TransferOptions};
use shoal_engine::sink::{
    Flush, Flushed, Sealed, Sink, SinkProperties, SinkState, Start, Started, StateRow, Wake, WithdrawnObject, Writer,
};
use shoal_engine::{Error, Kind, ObjectKey, Part, Result};

use self::commit::Book;
use self::earlier::Earlier;
use self::group::Format;
use self::mend::Place;
use self::shard::{Shards, lock};
pub(crate) use self::state::{is_withdrawn, published_number};
use self::writer::{Lane, Limits, OBJECT_MAX};

/// Bytes of a row group, as they are in memory.
const GROUP_MAX: u64 = 16 << 20;
/// Objects that may be fetched and not committed: some seconds at full speed.
const WINDOW_OBJECTS: u64 = 3_000_000;
const WINDOW_BYTES: u64 = 1 << 30;
/// What cannot be kept, because published rows are never rewritten; in the order of `ParquetSink::new`.
const REFUSED: &[&str] =
    &["`resume=\"update\"`", "`resume=\"restart\"`", "`overwrite=\"always\"`", "`durability=\"none\"`"];
/// How long a stop may take.
const STOP_WITHIN: Duration = Duration::from_secs(5);

shoal_engine::options! {
    /// How files are cut.
    pub struct ParquetOptions {
        /// About how many bytes a file has, as a number or text such as `"128MiB"`.
        shard_size: u64 = 128 << 20, "Bytes of a file of parquet:DIR.", takes: Type::Size,
            metavar: Some("SIZE"), group: DESTINATION;
        /// Seconds after which a file is finished although it is smaller.
        shard_age: Duration = Duration::from_secs(300), "Finish such a file after this long.",
            metavar: Some("SECONDS"), group: DESTINATION;
        /// About how many rows a row group has at most: it ends with the partition that reaches this number. With fewer,
        /// readers decompress less for a single row.
        group_rows: usize = 100_000, "Rows of a row group, about.", metavar: Some("N"), group: DESTINATION;
    }
    and {
        /// How often files are synced, and what is in them committed.
        commit_every: Duration = Duration::from_secs(1);
    }
}

/// A directory of Parquet files as the destination.
pub struct ParquetSink {
    path: PathBuf,
    options: ParquetOptions,
    limits: Limits,
    held_max: u64,
    nice: bool,
    part: Option<Part>,
    session: OnceLock<Session>,
    encoders: Mutex<Vec<JoinHandle<()>>>,
}

/// What exists from the start on.
struct Session {
    shards: Arc<Shards>,
    earlier: Arc<Earlier>,
    book: Mutex<Book>,
    _lock: Option<Lock>,
}

impl ParquetSink {
    /// Returns a sink for this directory. It creates and opens nothing before [`Sink::start`].
    ///
    /// # Errors
    /// [`Kind::Config`] for what cannot be kept: published rows are never rewritten.
    pub fn new(path: &Path, options: ParquetOptions, transfer: &TransferOptions) -> Result<ParquetSink> {
        let given = [
            transfer.resume == Resume::Update,
            transfer.resume == Resume::Restart,
            transfer.overwrite == Overwrite::Always,
            transfer.durability == Durability::None,
        ];
        if let Some((_, option)) = given.into_iter().zip(REFUSED).find(|(is_given, _)| *is_given) {
            let why = format!("{option} does not work with parquet: its rows are never rewritten");
            return Err(Error::new(Kind::Config, why).hint("copy into a new directory"));
        }
        let path =
            std::path::absolute(path).map_err(|_| Error::new(Kind::Config, "the destination's path is empty"))?;
        let group = GROUP_MAX.min(transfer.memory / 32).max(1) as usize;
        let limits = Limits { group, object: (transfer.memory / 8).min(OBJECT_MAX) };
        let TransferOptions { nice, part, memory, .. } = *transfer;
        let (session, encoders) = (OnceLock::new(), Mutex::default());
        Ok(ParquetSink { path, options, limits, held_max: memory / 2, nice, part, session, encoders })
    }

    fn session(&self) -> Result<&Session> {
        let unstarted = || Error::new(Kind::Internal, "a directory was written to before start");
        self.session.get().ok_or_else(unstarted)
    }
}

impl Sink for ParquetSink {
    fn identity(&self) -> String {
        match self.path.to_str() {
            Some(text) => format!("parquet:{text}"),
            // The path is absolute, so no other one has this text.
            None => format!("parquet:bytes={}", self.path.as_os_str().as_bytes().escape_ascii()),
        }
    }

    fn journal_dir(&self) -> Option<PathBuf> {
        Some(self.path.clone())
    }

    fn properties(&self) -> SinkProperties {
        SinkProperties {
            blocks: false,
            replaces: false,
            metadata: true,
            form: Some("parquet"),
            window_objects: WINDOW_OBJECTS,
            window_bytes: WINDOW_BYTES,
            // What leaves a partition is tried again once that is committed, which is only with its row group.
            open_max: None,
            stop_within: STOP_WITHIN,
            parts: true,
            refuses: REFUSED,
            ..SinkProperties::default()
        }
    }

    fn admit(&self, raw: &[u8]) -> Result<ObjectKey> {
        if std::str::from_utf8(raw).is_err() {
            let why = "its name is not UTF-8, which a column of names requires";
            return Err(Error::new(Kind::UnsafeName, why)
                .on(&shoal_engine::display::escape(raw))
                .hint("copy it to files"));
        }
        ObjectKey::of_bytes(raw)
    }

    fn start(&self, start: &Start, state: &dyn SinkState) -> Result<Started> {
        let private = PrivateDir::create(&self.path)?;
        let writer = match self.part {
            None => Lock::take_where_possible(&private, "writer".as_ref())?,
            Some(_) => None, // the run has it, together with other parts
        };
        if self.part.is_none() {
            private.keep_out_of_parts()?;
        }
        let format = Format::new().map_err(|error| Error::new(Kind::Internal, error.to_string()))?;
        let tmp = recover::temporary_directory(private, self.part)?;
        let recovered = recover::recover(&self.path, self.part, tmp, start, state, &format)?;
        let (size, held_max) = (self.options.shard_size, self.held_max);
        let shards = Arc::new(Shards::new(recovered.tmp, format, recovered.withdrawn, size, held_max));
        let book = Book::new(
            self.path.clone(),
            self.part.map(Part::index),
            self.options.clone(),
            self.limits,
            recovered.next,
            recovered.files,
        );
        let earlier = Arc::new(recovered.earlier);
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let mut encoders = lock(&self.encoders);
        for number in 0..(cores / 2).clamp(1, 8) {
            let (shards, nice) = (shards.clone(), self.nice);
            let thread = std::thread::Builder::new().name(format!("shoal-parquet-{number}"));
            let thread = thread.spawn(move || {
                if nice {
                    let _ = lower_priority(); // what the kernel refuses, the threads of the run tell
                }
                shards.encode();
            });
            encoders
                .push(thread.map_err(|error| Error::new(Kind::Internal, format!("cannot start a thread: {error}")))?);
        }
        drop(encoders);
        let session = Session { shards, earlier, book: Mutex::new(book), _lock: writer };
        if self.session.set(session).is_err() {
            return Err(Error::new(Kind::Internal, "a sink was started twice"));
        }
        Ok(Started {
            durability: "each file, about once a second".into(),
            publish: "rows of Parquet files, synced and renamed".into(),
            state: recovered.changes,
            notes: recovered.notes,
            ..Started::default()
        })
    }

    fn look_again(&self, state: &dyn SinkState) -> Result<Option<String>> {
        recover::look_again(&self.path, self.part, state).map(|()| None)
    }

    fn writer(&self, _lane: usize, wake: Wake) -> Result<Box<dyn Writer>> {
        let Session { shards, earlier, .. } = self.session()?;
        shards.add_wake(wake);
        let (shards, earlier) = (shards.clone(), earlier.clone());
        Ok(Box::new(Lane { shards, earlier, limits: self.limits, open: Vec::new(), usual: Rc::default() }))
    }

    fn flush(&self, sealed: Vec<Sealed>, reason: Flush) -> Result<Flushed> {
        let Session { shards, earlier, book, .. } = self.session()?;
        lock(book).flush(shards, earlier, sealed, reason)
    }

    fn publish(&self, state: &[StateRow]) -> Result<()> {
        let tmp = &self.session()?.shards.tmp;
        recover::publish(&self.path, self.part, tmp, state)
    }

    fn withdrawing(&self, objects: &[WithdrawnObject]) -> Vec<StateRow> {
        let shards = self.session.get().map(|session| &session.shards);
        shards.map_or_else(Vec::new, |shards| shards.withdrawn.add(&shards.session, objects))
    }

    fn mend(&self, state: &dyn SinkState, stop: &mut dyn FnMut() -> bool) -> Result<Vec<StateRow>> {
        let Shards { tmp, format, withdrawn, .. } = &*self.session()?.shards;
        if !withdrawn.any() {
            return Ok(Vec::new());
        }
        Place { path: &self.path, part: self.part.map(Part::index), tmp, format }.mend(state, stop)
    }
}

impl Drop for ParquetSink {
    fn drop(&mut self) {
        if let Some(session) = self.session.get() {
            session.shards.end();
        }
        for encoder in std::mem::take(&mut *lock(&self.encoders)) {
            let _ = encoder.join();
        }
    }
}
