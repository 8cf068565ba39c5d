//! Passes on a file in pieces: its data as ranges that the destination copies within the kernel, or as bytes, and its holes
//! as such where the destination takes them. Not here: which files come in pieces (`open.rs`).

use std::os::fd::{AsFd, OwnedFd};

use super::fetch::Reader;
use super::open::{changed, refused, same};
use crate::error::Result;
use crate::fs::extents::next_data;
use crate::fs::read::{self, Facts, Space, unreadable};
use crate::object::ObjectMeta;
use crate::source::in_pieces::in_pieces;
use crate::source::turn::Turn;
use crate::source::{Body, Job, Lane};

/// Bytes of a large file read at once.
const PIECE: usize = 256 << 10;
/// Bytes that the kernel copies at once: a stop and a limit of the rate wait for no more.
const RANGE: u64 = 16 << 20;

impl Reader<'_> {
    /// Passes on a file, of which the first `held` bytes are in the buffer.
    pub(super) async fn large(
        &mut self,
        lane: &dyn Lane,
        job: Job,
        file: &OwnedFd,
        facts: &Facts,
        meta: &ObjectMeta,
        held: usize,
    ) {
        let takes_holes = self.takes_links();
        in_pieces(lane, job, meta, async |body| {
            self.pieces(file, facts, held, takes_holes, body).await?;
            let after = read::facts(file.as_fd()).map_err(|errno| unreadable(errno, None))?;
            match same(facts, &after) && body.bytes() == facts.size {
                true => Ok(()),
                false => Err(changed(facts, &after, body.bytes())),
            }
        })
        .await;
    }

    async fn pieces(
        &mut self,
        file: &OwnedFd,
        facts: &Facts,
        held: usize,
        mut holes: bool,
        body: &mut Body,
    ) -> Result<()> {
        let (mut at, mut end, mut ranges) = (0, 0, holes);
        // A range begins at the start of a block, and a copy of the buffer into the sink's space costs as much as reading.
        if !holes && !body.has_space() {
            body.write(&self.buffer[..held])?;
            at = held as u64;
        }
        let mut turn = Turn::new();
        while at < facts.size {
            if at >= end {
                end = facts.size;
                if holes {
                    let data = next_data(file.as_fd(), at, facts.size);
                    holes = data.start == at || body.hole(data.start - at)?;
                    if holes {
                        (at, end) = (data.start, data.end);
                        continue;
                    }
                }
            }
            if ranges {
                let length = (end - at).min(RANGE) as usize;
                match body.copy(file.as_fd(), at, length)? {
                    Some(copied) => at += copied as u64,
                    None => ranges = false,
                }
                turn.after_piece().await;
                continue;
            }
            let most = usize::try_from(end - at).unwrap_or(usize::MAX);
            let read = match body
                .fill(|space| read::append_at(file.as_fd(), space, at, most).map_err(|errno| refused(file, errno, at)))
            {
                Some(read) => read?,
                None => {
                    if self.buffer.len() < PIECE {
                        self.buffer = Space::new(PIECE);
                    }
                    let most = most.min(self.buffer.len());
                    let read = read::read_at(file.as_fd(), &mut self.buffer[..most], at);
                    let read = read.map_err(|errno| refused(file, errno, at))?;
                    body.write(&self.buffer[..read])?;
                    read
                }
            };
            if read == 0 {
                return Ok(()); // shorter than it was
            }
            at += read as u64;
            turn.after_piece().await;
        }
        Ok(())
    }
}
