//! What the directories of the destination get, once all objects are committed and before the run counts as complete.
//!
//! The source is walked once more, so no table of directories is kept, and the run that completes after a kill does the same. Not
//! here: the walk (`Source::directories`), what a directory gets (`Sink::directory`).

use super::shared::Shared;
use crate::error::{Class, Error, Kind, Result};
use crate::journal::Ending;
use crate::source::Unlisted;

/// Gives them what those of the source have. Returns what the first one of those cannot have that cannot have all, which is no
/// object, so that the run is complete without it; all others have theirs.
///
/// # Errors
/// That the run is stopped, or that the destination fails.
pub(super) fn set(shared: &Shared, ending: &mut Ending) -> Result<Option<Error>> {
    if !shared.writing.takes.links || shared.options.dry_run {
        return Ok(None);
    }
    let (mut any, mut failed) = (false, None);
    let walked = shared.source.directories(&mut |path, meta| {
        if shared.cancel.is_raised() {
            return Err(Error::new(Kind::Interrupted, "the run was stopped before its directories were done"));
        }
        if !path.is_empty() && !shared.filter.may_admit(Unlisted::Below, path) {
            return Ok(()); // it was excluded with all that is in it
        }
        any = true;
        // One in which everything was skipped.
        let make = shared.filter.admits(path, true);
        match shared.sink.directory(path, meta, make).map_err(Error::of_sink) {
            Err(error) if error.class() != Class::Run => {
                failed.get_or_insert(error.into_kind(Kind::DestinationFailed));
                Ok(())
            }
            result => result,
        }
    });
    if any {
        shared.sink.sync_directories().map_err(|error| {
            *ending = Ending::BarrierFailed;
            error.of_sink()
        })?;
    }
    walked.map(|()| failed)
}
