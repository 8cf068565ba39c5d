//! Fetches pages of a listing on a thread of its own, so that the next one comes while the last is worked on. Not here: what
//! the next one is (`listing.rs`).

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use shoal_engine::{Error, Findings, Kind, Result};
use shoal_http::{Head, IdleConnections, Method, Request, Wants, send};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::answer::{Asked, Meaning, meaning};
use crate::encoding::Encoding;
use crate::page::{self, Page};
use crate::service::{BUCKET_REGION, Service};
use crate::store::Store;

/// Largest page, in bytes: a thousand keys of 1,024 bytes, encoded, are 4 MB.
const PAGE_MAX: usize = 64 << 20;
/// How often a page is asked for that comes and cannot be used.
const TRIES: u32 = 3;
/// How often one request is signed.
const SIGNED_MAX: u32 = 5;
/// How long to wait before such a page is asked for again.
const PAUSE: Duration = Duration::from_millis(200);

/// Which page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ask {
    pub prefix: Vec<u8>,
    pub token: Option<String>,
    /// The key behind which it begins.
    pub behind: Option<Vec<u8>>,
    /// The first key is enough.
    pub is_for_one: bool,
}

type Clock = fn() -> Duration;

/// The thread, and what goes to and fro.
pub(crate) struct Pager {
    asks: Option<Sender<Ask>>,
    pages: Receiver<Result<Page>>,
    thread: Option<JoinHandle<()>>,
}

impl Pager {
    /// # Errors
    /// The thread cannot be started.
    pub fn start(store: Arc<Store>, findings: Arc<Findings>) -> Result<Pager> {
        let failed = |error: std::io::Error| {
            Error::new(Kind::Internal, format!("cannot start the thread for pages of the listing: {error}"))
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (asks, mut asked) = channel::<Ask>(1);
        let (sender, pages) = channel(1);
        let fetch = move || {
            runtime.block_on(async {
                let wants = Wants { times: true, ..Wants::fields(&[BUCKET_REGION]) };
                let (mut connections, mut keys) = (IdleConnections::new(findings, wants), Encoding::default());
                while let Some(ask) = asked.recv().await {
                    let page = tokio::select! {
                        page = page(&store, &mut connections, &mut keys, &ask) => page,
                        () = sender.closed() => break,
                    };
                    if sender.send(page).await.is_err() {
                        break;
                    }
                }
            });
            // Not dropped: that would wait for a name that is being looked up.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("shoal-pages".into()).spawn(fetch).map_err(failed)?;
        Ok(Pager { asks: Some(asks), pages, thread: Some(thread) })
    }

    /// Asks for a page. It comes after those that were asked for before.
    pub fn ask(&self, ask: Ask) {
        // One is asked for at a time, so there is room.
        self.asks.as_ref().map(|asks| asks.try_send(ask));
    }

    /// The page that was asked for.
    pub async fn page(&mut self) -> Result<Page> {
        let gone = || Err(Error::new(Kind::Internal, "the thread for pages of the listing has ended"));
        self.pages.recv().await.unwrap_or_else(gone)
    }
}

impl Drop for Pager {
    fn drop(&mut self) {
        self.asks = None;
        self.pages.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Fetches a page. One that cannot be used is asked for again, a few times: it may have been cut short, or be a proxy's.
async fn page(
    store: &Arc<Store>,
    connections: &mut IdleConnections<Clock, ()>,
    keys: &mut Encoding,
    ask: &Ask,
) -> Result<Page> {
    let service = store.service().await?;
    let mut tries = 1;
    loop {
        let body = body(service, connections, ask).await.map_err(|error| error.on(&store.shown()))?;
        match page::parse(&body, &ask.prefix, keys) {
            Err(_) if tries < TRIES => tokio::time::sleep(PAUSE * tries).await,
            Err(error) => return Err(error.on(&store.shown())),
            Ok(page) => return Ok(page),
        }
        tries += 1;
    }
}

async fn body(service: &Service, connections: &mut IdleConnections<Clock, ()>, ask: &Ask) -> Result<Vec<u8>> {
    let target = service.list_target(ask);
    let request = Request::new(Method::Get, &target).fields(service.list_fields());
    let clock: Clock = || Duration::ZERO;
    let mut tries = 0;
    loop {
        tries += 1;
        service.client.fields.ready().await?;
        let (mut open, mut head) = send(&service.client, connections, clock, &request, || ()).await?;
        if head.status == 200 {
            let body = open.body(&mut head, PAGE_MAX).await?;
            connections.keep(open, &head);
            let why = format!("a page of the listing is larger than {} MiB", PAGE_MAX >> 20);
            return body.ok_or_else(|| Error::new(Kind::Listing, why));
        }
        let body = open.error_body(&mut head).await;
        match meaning(service, Asked::List, &head, &body) {
            meaning if tries < SIGNED_MAX && again(service, &meaning, &head, &target) => {}
            Meaning::Fails(error) | Meaning::Expired(error) | Meaning::Skewed(_, error) => return Err(error),
        }
    }
}

/// Whether a request can be sent again at once, signed anew.
pub(crate) fn again(service: &Service, meaning: &Meaning, head: &Head, target: &[u8]) -> bool {
    match meaning {
        Meaning::Fails(_) => false,
        Meaning::Expired(_) => service.client.fields.asks_as_expired(head, target),
        Meaning::Skewed(time, _) => {
            service.signer.as_ref().zip(*time).is_some_and(|(signer, time)| signer.correct(time))
        }
    }
}
