//! Reads symbolic links that are passed on as such. Not here: links that are followed (`open.rs`).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use rustix::io::Errno;

use super::entries::parts;
use super::open::{Opener, split};
use crate::error::{Error, Kind};
use crate::fs::read::{system_time, unreadable};
use crate::object::{AttributeScope, FileAttributes, ObjectKind, ObjectMeta, Owner, Payload};
use crate::source::{Job, Lane};

/// Answers a job for a symbolic link.
pub(super) fn fetch(opener: &mut Opener<'_>, lane: &dyn Lane, job: Job) {
    let path = parts(job.entry().locator).0;
    match read(opener, path) {
        Ok(Some((meta, text))) => {
            if leads_outside(path, &text) {
                opener.tree.outside.fetch_add(1, Relaxed);
            }
            lane.whole(job, &meta, Payload::Borrowed(&text));
        }
        Ok(None) => {
            let hint = "run again with `resume=\"failed\"` when nothing changes it";
            lane.failed(job, Error::new(Kind::Changed, "the symbolic link changed while it was read").hint(hint));
        }
        Err(Errno::INVAL) => lane.failed(job, Error::new(Kind::BadAnswer, "no longer a symbolic link")),
        Err(errno) => lane.failed(job, unreadable(errno, None)),
    }
}

/// A link, and what is known of it. `None`: it was replaced meanwhile; the text of a link itself never changes.
fn read(opener: &mut Opener<'_>, path: &[u8]) -> Result<Option<(ObjectMeta, Vec<u8>)>, Errno> {
    let (directory, name) = split(path)?;
    let exact = opener.tree.takes.attributes == AttributeScope::All;
    let directory = opener.directory(directory)?;
    let before = directory.look(name)?;
    let text = directory.link_text(name)?;
    let after = directory.look(name)?;
    if (before.id, before.changed) != (after.id, after.changed) {
        return Ok(None);
    }
    let owner = exact.then_some(Owner { user: after.user, group: after.group, mode: 0o777 });
    let meta = ObjectMeta {
        size: Some(text.len() as u64),
        last_modified: system_time(after.written.into()),
        changed: Some(after.changed),
        kind: ObjectKind::Link,
        attributes: exact.then(|| Arc::new(FileAttributes { owner, extended: Vec::new() })),
        ..ObjectMeta::default()
    };
    Ok(Some((meta, text)))
}

/// Whether a link at this path below the root has a text that leads out of the root, as far as the text tells.
fn leads_outside(path: &[u8], text: &[u8]) -> bool {
    let mut depth = memchr::memchr_iter(b'/', path).count();
    text.starts_with(b"/")
        || text.split(|&byte| byte == b'/').any(|component| match component {
            b"" | b"." => false,
            b".." if depth == 0 => true,
            b".." => {
                depth -= 1;
                false
            }
            _ => {
                depth += 1;
                false
            }
        })
}

#[cfg(test)]
mod tests {
    use super::leads_outside;

    #[test]
    fn a_text_leads_outside_if_it_climbs_above_the_root() {
        for (path, text, outside) in [
            ("a", "b", false),
            ("a", "../a", true),
            ("d/a", "../b", false),
            ("d/a", "../../b", true),
            ("d/a", "x/../../b", false),
            ("d/a", "./..//.", false),
            ("d/a", "/d/b", true),
        ] {
            assert_eq!(leads_outside(path.as_bytes(), text.as_bytes()), outside, "{path} -> {text}");
        }
    }
}
