//! Bounds the memory of decoders: streams that need a large window take turns, so that not every lane has one at once.
//!
//! Not here: how large a window is, and which is refused (`decode.rs`).

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

/// If the stream with the large window has unpacked no piece for this time, it is assumed to be blocked by its
/// consumer, which may in turn wait for an entry that waits for its turn here. Much longer than any piece takes.
const PATIENCE: Duration = Duration::from_secs(5);

/// Lets one stream of a run at a time have a window over [`WINDOW_EACH`](super::decode::WINDOW_EACH). One for each lane
/// would be several times the memory that a run may use.
pub(crate) struct WideWindows {
    turn: Semaphore,
    /// Number of pieces unpacked by streams in their turn.
    pieces: AtomicU64,
    patience: Duration,
}

impl WideWindows {
    /// Waits for the turn of this stream, which ends when the permit is dropped. Returns `None` if the other stream is
    /// blocked; then this one may continue without a permit.
    pub async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        if let Ok(turn) = self.turn.try_acquire() {
            return Some(turn);
        }
        loop {
            let before = self.pieces.load(Relaxed);
            match tokio::time::timeout(self.patience, self.turn.acquire()).await {
                Ok(turn) => return turn.ok(),
                Err(_) if self.pieces.load(Relaxed) == before => return None,
                Err(_) => {}
            }
        }
    }

    /// Records that a piece was unpacked.
    pub fn unpacked(&self) {
        self.pieces.fetch_add(1, Relaxed);
    }
}

impl Default for WideWindows {
    fn default() -> WideWindows {
        WideWindows { turn: Semaphore::new(1), pieces: AtomicU64::new(0), patience: PATIENCE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_its_turn_after_another_and_waits_for_none_that_is_held_up() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let wide = WideWindows { patience: Duration::from_millis(500), ..WideWindows::default() };
        runtime.block_on(async {
            let first = wide.turn().await.unwrap();
            assert!(wide.turn().await.is_none(), "nothing was unpacked meanwhile");
            let working = async {
                for _ in 0..50 {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    wide.unpacked();
                }
                drop(first);
            };
            let (second, ()) = tokio::join!(wide.turn(), working);
            assert!(second.is_some(), "it waits for one that works, however long");
            assert!(wide.turn.try_acquire().is_err());
        });
    }
}
