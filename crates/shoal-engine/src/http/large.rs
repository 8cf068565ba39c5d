//! A large body, or an encoded one: handed in piece by piece, and resumed where it broke off. Not here: decoding
//! (`encoding.rs`), when that is safe (`resume.rs`).

use std::time::Duration;

use super::asking::ask;
use super::client::Client;
use super::connection::{Connection, Gathered};
use super::encoding::Decoding;
use super::exchange::{Exchange, Plan};
use super::head::Head;
use super::idle_connections::{Idle, Kept};
use super::resume::{Resume, Verdict};
use super::stream::Behind;
use crate::error::{Error, Kind, Result};

/// Hands a body in, first what has come of it already. What is given back, and `more`: see `answer`.
pub(super) async fn large<E: Exchange, C: Fn() -> Duration + Clone>(
    client: &Client,
    mut open: Box<Connection<C>>,
    exchange: &E,
    job: E::Job,
    head: &mut Head,
    more: bool,
) -> Option<Idle<C, E::Written>> {
    let begun = match Decoding::of(head) {
        Ok(decoding) => exchange.begin(&job, head).await.map(|body| (decoding, body)),
        Err(error) => Err(error),
    };
    let mut large = match begun {
        Ok((decoding, body)) => Large {
            client,
            exchange,
            body: Some(body),
            job: &job,
            have: 0,
            length: head.length(),
            decoding,
            is_over: false,
        },
        Err(error) => {
            exchange.failed(job, error);
            return None;
        }
    };
    let resume = Resume::of(head);
    let begun = match open.gathered(&Gathered::Pieces) {
        [] => Ok(()),
        pieces => large.take(pieces),
    };
    open.forget_pieces();
    let result = match begun {
        Ok(()) => large.pour(&mut open, head, more).await,
        Err(error) => Err(error),
    };
    let (result, kept) = match (result, resume) {
        (Ok(()), _) => (Ok(()), (!large.is_over).then_some(open)),
        (Err(error), Some(resume)) => {
            let clock = open.clock();
            drop(open);
            (large.go_on(resume, error, clock).await, None)
        }
        (Err(error), None) => (Err(error), None),
    };
    let error = match (large.body, result) {
        (Some(body), result) => {
            let written = exchange.finished(job, body, result);
            return kept.map(|open| Idle { open, written, ends: head.close });
        }
        (None, Err(error)) => error,
        (None, Ok(())) => Error::new(Kind::Internal, "a large object came to nothing"),
    };
    exchange.failed(job, error);
    None
}

/// An object on its way.
struct Large<'a, E: Exchange> {
    client: &'a Client,
    exchange: &'a E,
    job: &'a E::Job,
    /// `None`: it was to begin again, and could not.
    body: Option<E::Body>,
    /// Bytes of it that were handed in.
    have: u64,
    /// Bytes that it has altogether, where the service said.
    length: Option<u64>,
    /// Where it came encoded; `have` and `length` are of what is sent.
    decoding: Option<Decoding>,
    /// Something stands behind the body: its connection cannot be used again.
    is_over: bool,
}

impl<E: Exchange> Large<'_, E> {
    fn take(&mut self, piece: &[u8]) -> Result<()> {
        let have = self.have + piece.len() as u64;
        if self.length.is_some_and(|length| have > length) {
            return Err(Error::new(Kind::Protocol, "the answer is longer than announced"));
        }
        let Some(body) = &mut self.body else { return Ok(()) };
        match &mut self.decoding {
            None => self.exchange.piece(body, piece)?,
            Some(decoding) => decoding.take(piece, &mut |decoded: &[u8]| self.exchange.piece(body, decoded))?,
        }
        self.have = have;
        Ok(())
    }

    /// Hands in what comes until the end of the answer.
    async fn pour<C: Fn() -> Duration>(&mut self, open: &mut Connection<C>, head: &mut Head, more: bool) -> Result<()> {
        // The budget counts this much for every object in flight.
        open.widen(E::WHOLE_MAX);
        while let Some(piece) = open.piece(&mut head.framing).await? {
            self.take(open.bytes(piece))?;
        }
        if let Some(error) = open.surplus(head, more) {
            return Err(error);
        }
        // One system call for a large object: by now its surplus has often come. With others unanswered, what comes next shows.
        let behind = match more {
            true => Behind::Nothing,
            false if self.exchange.is_doubted(self.job) => open.linger().await,
            false => open.behind(),
        };
        self.is_over = behind != Behind::Nothing;
        if behind == Behind::Bytes {
            return Err(Error::new(Kind::ShortBody, "the answer is longer than announced"));
        }
        if let Some(length) = self.length
            && length != self.have
        {
            return Err(Error::new(Kind::ShortBody, format!("{} of {length} bytes came", self.have)));
        }
        if let Some(decoding) = &self.decoding {
            decoding.end()?;
            self.client.remarks.decoded(decoding.name());
        }
        Ok(())
    }

    /// Asks for the rest, on a connection of its own, for as long as that makes sense.
    async fn go_on<C: Fn() -> Duration + Clone>(&mut self, resume: Resume, error: Error, clock: C) -> Result<()> {
        let (mut resume, mut error) = (resume, error);
        while let Some(pause) = resume.pause(&error) {
            tokio::time::sleep(pause).await;
            let fields = resume.fields(self.have);
            let target = |out: &mut Vec<u8>| self.exchange.target(self.job, out);
            let (mut open, mut head) =
                match ask(self.client, &mut Kept::<C, ()>::default(), clock.clone(), &fields, target).await {
                    Ok(answered) => answered,
                    Err(e) => {
                        error = e;
                        continue;
                    }
                };
            let mut renewed = None;
            match resume.judge(self.have, &head)? {
                Verdict::Rest => {}
                Verdict::Whole => {
                    self.begin_again(&head).await?;
                    renewed = Some(Resume::of(&head));
                }
                Verdict::Changed => {
                    self.exchange.wasted(self.have);
                    self.have = 0;
                    error = Error::new(Kind::ShortBody, "the object was replaced while it was fetched");
                    continue;
                }
            }
            match self.pour(&mut open, &mut head, false).await {
                Ok(()) => return Ok(()),
                Err(e) => error = e,
            }
            if let Some(fresh) = renewed {
                match fresh {
                    Some(fresh) => resume = fresh.after(&resume),
                    None => break,
                }
            }
        }
        Err(error)
    }

    /// The whole comes once more, or an answer that is not the object.
    async fn begin_again(&mut self, head: &Head) -> Result<()> {
        match self.exchange.head(self.job, head) {
            Plan::Keep => {}
            Plan::Refuse(error) => return Err(error),
            Plan::Unchanged => {
                let why = "the answer is 304, but the request was not conditional";
                return Err(Error::new(Kind::BadAnswer, why));
            }
        }
        self.exchange.wasted(self.have);
        // Before the next one is begun: there is one of a name at a time.
        self.body = None;
        self.have = 0;
        self.length = head.length();
        self.decoding = Decoding::of(head)?;
        self.body = Some(self.exchange.begin(self.job, head).await?);
        Ok(())
    }
}
