//! What belongs to the directories of a tree, for a copy that gets it at its end.

use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::io::Errno;

use super::entries::Mark;
use super::open::attributes;
use super::prefetch::SLOW;
use super::tree::Tree;
use super::walk::{Step, Walk};
use crate::display::escape;
use crate::error::{Kind, Result};
use crate::fs::dir::Dir;
use crate::fs::read::{facts, unreadable};
use crate::object::ObjectMeta;

/// Calls `each` with every directory, after those below it. One that cannot be read has failed in the listing already.
pub(super) fn each(tree: &Arc<Tree>, each: &mut dyn FnMut(&[u8], &ObjectMeta) -> Result<()>) -> Result<()> {
    let mut walk = Walk::new(tree.clone(), SLOW);
    let mut failed = None; // the others get theirs first
    loop {
        match walk.step() {
            Ok(Step::Left | Step::Entry(Mark::Empty)) => {}
            Ok(Step::Entry(_) | Step::Nothing) => continue,
            Ok(Step::End) => return failed.map_or(Ok(()), Err),
            Err(error) if error.kind() == Kind::OutOfFiles => return Err(error.into_kind(Kind::Listing)),
            Err(error) => return Err(error),
        }
        let unread = |errno| unreadable(errno, None).into_kind(Kind::Listing).on(&escape(walk.path()));
        match tree.root.below(walk.path(), tree.follows()).map(|directory| meta(tree, &directory)) {
            Ok(Ok(meta)) => each(walk.path(), &meta)?,
            Ok(Err(errno)) => drop(failed.get_or_insert_with(|| unread(errno))),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::STALE | Errno::LOOP) => {}
            Err(errno) => return Err(unread(errno)),
        }
    }
}

fn meta(tree: &Tree, directory: &Dir) -> Result<ObjectMeta, Errno> {
    let extended = crate::fs::attributes::read(directory.as_fd(), tree.takes.attributes)?;
    let facts = facts(directory.as_fd())?;
    Ok(ObjectMeta {
        last_modified: facts.last_modified(),
        mode: Some(facts.mode & 0o777),
        attributes: attributes(tree, &facts, extended),
        ..ObjectMeta::default()
    })
}
