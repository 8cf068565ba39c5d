//! A source of your own: the numbers below N, each one object with a few bytes.
//!
//! `cargo run --example own_source -- 1000000` counts them; docs/extending.md explains the parts.

use std::rc::Rc;
use std::sync::Arc;

use shoal_engine::error::HostId;
use shoal_engine::source::{BoxFuture, Entries, Entry, Fetcher, Lane, Listing, LocalFuture, Source, Take};
use shoal_engine::{Cursor, Error, Key, Kind, ObjectMeta, Partition, Payload, Result};

/// Objects in a partition.
const LENGTH: u64 = 1000;

/// The description of the source. What a run learns and where it is, the run keeps.
#[derive(Clone)]
pub struct Numbers(pub u64);

/// A listing in progress: the number with which the next partition begins.
struct Pages(u64, u64);

/// An open partition: the names of its objects.
struct Names(Vec<Box<[u8]>>);

fn partition(seq: u64, names: &[Box<[u8]>]) -> Partition {
    let key = Key::of(names.iter().map(|name| &**name));
    let (payload, len) = (names.join(&b'\n').into(), Some(names.len() as u32));
    Partition { seq, key, after: Cursor(seq.to_le_bytes().as_slice().into()), next: None, payload, len }
}

impl Source for Numbers {
    fn identity(&self) -> String {
        format!("numbers below {}", self.0)
    }
    fn list(&self, after: Option<Cursor>) -> Result<Box<dyn Listing>> {
        let damaged = || Error::new(Kind::CursorRefused, "the journal has another source's cursor");
        let seq = after.map_or(Ok([0; 8]), |after| (&*after.0).try_into().map_err(|_| damaged()))?;
        Ok(Box::new(Pages(u64::from_le_bytes(seq) * LENGTH, self.0)))
    }
    fn select(&self, locators: &[Box<[u8]>]) -> Result<Partition> {
        Ok(partition(0, locators))
    }
    fn fetcher(&self, _lane: usize) -> Result<Box<dyn Fetcher>> {
        Ok(Box::new(self.clone()))
    }
}

impl Listing for Pages {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Partition>>> {
        let Pages(at, end) = *self;
        self.0 += LENGTH;
        let names: Vec<_> = (at..end.min(at + LENGTH)).map(|number| number.to_string().into_bytes().into()).collect();
        Box::pin(async move { Ok((!names.is_empty()).then(|| partition(at / LENGTH, &names))) })
    }
}

impl Entries for Names {
    fn len(&self) -> u32 {
        self.0.len() as u32
    }
    fn get(&self, index: u32) -> Entry<'_> {
        let name = &*self.0[index as usize];
        Entry { name, locator: name, host: HostId(0), skip: None, unlisted: None }
    }
}

impl Fetcher for Numbers {
    fn open<'a>(&'a self, partition: &'a Partition) -> LocalFuture<'a, Result<Rc<dyn Entries>>> {
        let names = partition.payload.split(|&byte| byte == b'\n').map(Into::into).collect();
        Box::pin(async { Ok(Rc::new(Names(names)) as Rc<dyn Entries>) })
    }
    fn run(&self, lane: Rc<dyn Lane>) -> LocalFuture<'_, Result<()>> {
        Box::pin(async move {
            loop {
                match lane.take() {
                    Take::Stop => return Ok(()),
                    Take::Wait => lane.wake().await,
                    Take::Job(job) => {
                        let data = [b"number ", job.name.as_bytes()].concat();
                        let meta = ObjectMeta { size: Some(data.len() as u64), ..ObjectMeta::default() };
                        lane.whole(job, &meta, Payload::Owned(data));
                    }
                }
            }
        })
    }
}

#[allow(dead_code)] // tests include this file
fn main() {
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(1_000_000);
    let sink = Arc::new(shoal_engine::sink::null::NullSink::new());
    let run = shoal_engine::transfer::Transfer::new(Arc::new(Numbers(count)), sink, Default::default());
    let outcome = run.run(&mut |_| std::ops::ControlFlow::Continue(()));
    println!("{:?} in {:.2} s", outcome.report.run, outcome.report.elapsed.as_secs_f64());
}
