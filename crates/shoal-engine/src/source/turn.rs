//! Turns of a fetcher that blocks its thread: how long it works before the lane does something else, such as looking
//! for a stop every 20 ms.

use crate::fs::read::coarse_now;

/// Objects of a turn.
const OBJECTS: u32 = 64;
/// Time of a turn in nanoseconds.
const TIME: i128 = 10_000_000;

/// A turn: what was done since the lane last did something else.
pub struct Turn {
    objects: u32,
    began: i128,
}

impl Default for Turn {
    fn default() -> Turn {
        Turn::new()
    }
}

impl Turn {
    /// Begins a turn.
    pub fn new() -> Turn {
        Turn { objects: 0, began: coarse_now() }
    }

    /// Yields if the turn is over. Call it after each object.
    pub async fn after_object(&mut self) {
        self.after_object_at(coarse_now()).await;
    }

    /// The same for a caller that has the coarse time.
    pub(super) async fn after_object_at(&mut self, now: i128) {
        self.objects += 1;
        if self.objects >= OBJECTS || (now - self.began).abs() >= TIME {
            *self = Turn { objects: 0, began: now };
            tokio::task::yield_now().await;
        }
    }

    /// Yields if the time of the turn is over. Call it after each piece of a large object.
    pub async fn after_piece(&mut self) {
        let now = coarse_now();
        if (now - self.began).abs() >= TIME {
            *self = Turn { objects: 0, began: now };
            tokio::task::yield_now().await;
        }
    }
}
