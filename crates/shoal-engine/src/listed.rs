//! `each_listed`: what a source lists, with nothing fetched, for a user who looks before a run. Not here: runs.

use std::ops::ControlFlow;
use std::time::SystemTime;

use crate::engine::{Filter, next_page};
use crate::error::{Error, Kind, Result};
use crate::hosts::{Hosts, Rules};
use crate::options::TransferOptions;
use crate::report::{Failure, archive_of, is_of_archives};
use crate::source::{Skip, Source};

/// One object of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The name as the source gave it (not necessarily a safe one).
    pub name: Box<[u8]>,
    /// The path of the archive that it is an entry of.
    pub archive: Option<Box<[u8]>>,
    /// Its size, where the listing knows it.
    pub size: Option<u64>,
    /// When it was last changed, where the listing knows it.
    pub modified: Option<SystemTime>,
}

/// Lists a source from its start to its end on this thread: an object each, or a failure for what cannot be listed.
/// Directories, links and names that the patterns leave out are not among them. `Break` ends it. Of the options, the
/// patterns and how long to retry count.
///
/// # Errors
/// What ends a run that lists: no page can be fetched, a pattern is none.
pub fn each_listed(
    source: &dyn Source,
    options: &TransferOptions,
    each: &mut dyn FnMut(Result<Listed, Failure>) -> ControlFlow<()>,
) -> Result<()> {
    let filter = Filter::new(&options.include, &options.exclude)?;
    let rules = Rules { max_retries: options.max_retries, timeout: options.retry_timeout, many: false };
    let hosts = Hosts::new("the server", rules);
    let of_archives = is_of_archives(&source.identity());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::new(Kind::Internal, format!("cannot start the event loop for the listing: {e}")))?;
    let listing = async {
        let (mut listing, fetcher) = (source.list(None)?, source.fetcher(0)?);
        while let Some(partition) = next_page(&mut *listing, &hosts, || {}).await? {
            let entries = fetcher.open(&partition).await?;
            for index in 0..entries.len() {
                let entry = entries.get(index);
                let known = entries.known(index);
                let failed = known.failed.or_else(|| {
                    entry.unlisted.map(|_| Error::new(Kind::ReadFailed, "its contents could not be listed"))
                });
                let admits = match entry.unlisted {
                    None => filter.admits(entry.name, false),
                    Some(unlisted) => filter.may_admit(unlisted, entry.name),
                };
                if !admits || !matches!(entry.skip, None | Some(Skip::Marker)) {
                    continue;
                }
                let (name, archive) = (entry.name.into(), of_archives.then(|| archive_of(entry.locator).into()));
                let listed = match failed {
                    None => Ok(Listed { name, archive, size: known.size, modified: known.modified }),
                    Some(error) => {
                        let (kind, reason) = (error.kind().as_str().to_owned(), error.why().to_owned());
                        Err(Failure { name, archive, kind, reason, tries: 1 })
                    }
                };
                if each(listed).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    };
    let result = tokio::task::LocalSet::new().block_on(&runtime, listing);
    // Not dropped: that would wait for a name that is being looked up, for as long as its server takes.
    runtime.shutdown_background();
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::memory::MemorySource;

    #[test]
    fn objects_are_listed_by_the_rules_of_a_run_until_it_is_enough() {
        let page = |names: &[&str]| names.iter().map(|name| (name.as_bytes().to_vec(), b"x".to_vec())).collect();
        let source = MemorySource::new(vec![page(&["a.txt", "b.csv"]), page(&["old/c.txt", "d.txt"])], 1);
        let (include, exclude) = (vec!["*.txt".to_owned()], vec!["old".to_owned()]);
        let options = TransferOptions { include, exclude, ..TransferOptions::default() };
        let mut names = Vec::new();
        let mut list = |most: usize| {
            names.clear();
            each_listed(&source, &options, &mut |listed| {
                names.push(String::from_utf8(listed.unwrap().name.into()).unwrap());
                if names.len() == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
            .unwrap();
            names.clone()
        };
        assert_eq!(list(usize::MAX), ["a.txt", "d.txt"]);
        assert_eq!(list(1), ["a.txt"]);
    }
}
