//! Turns of the streams that need a wide window, so that not every lane has one at once.
//!
//! Not here: how wide a window is, and which is refused (`decode.rs`).

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

/// Time without a piece unpacked after which the stream with the wide window is taken to be held up by what comes behind
/// it, which may wait for the very entry that waits for its turn: much longer than any piece takes.
const PATIENCE: Duration = Duration::from_secs(5);

/// Lets one stream of a run at a time have a window over [`WINDOW_EACH`](super::decode::WINDOW_EACH): as many as there are lanes would be all memory
/// that a run may take, several times.
pub(crate) struct WideWindows {
    turn: Semaphore,
    /// Pieces unpacked by those whose turn it was.
    pieces: AtomicU64,
    patience: Duration,
}

impl WideWindows {
    /// Waits for this stream's turn; it ends when the answer is dropped. Without an answer it may go on all the same:
    /// the other one is held up.
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

    /// A piece was unpacked.
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
