//! What a sink remembers of a destination, as the sink and the journal exchange it. Not here: its table
//! (`journal/state.rs`), what a sink puts there.

use crate::error::Result;

/// A row of sink state: a key, and its value from now on. `None` removes the row.
pub type StateRow = (Box<[u8]>, Option<Box<[u8]>>);

/// Takes a row of sink state: its key and its value.
pub type ReadRow<'a> = dyn FnMut(&[u8], &[u8]) -> Result<()> + 'a;

/// The sink state of a destination, as the journal has it: rows of a key and a value that the sink chose
/// (`Flushed::state`). It belongs to the destination, not to a run, and is never loaded whole.
pub trait SinkState {
    /// Calls `read` with each row, in the order of the keys, until it fails.
    ///
    /// # Errors
    /// Those of `read` and of reading the journal.
    fn each(&self, read: &mut ReadRow<'_>) -> Result<()>;
}

/// No state: a destination without a journal, or one that is new.
impl SinkState for () {
    fn each(&self, _read: &mut ReadRow<'_>) -> Result<()> {
        Ok(())
    }
}
