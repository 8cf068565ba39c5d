//! `include` and `exclude`: which names are wanted at all.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::error::{Error, Kind, Result};

/// Compiled globs. `*` stops at `/`, `**` does not.
pub(crate) struct Filter {
    include: Option<GlobSet>,
    exclude: Option<GlobSet>,
}

impl Filter {
    pub fn new(include: &[String], exclude: &[String]) -> Result<Filter> {
        Ok(Filter { include: compile(include, "include")?, exclude: compile(exclude, "exclude")? })
    }

    /// Whether a name passes: some include matches, if there are any, and no exclude does.
    pub fn admits(&self, raw: &[u8]) -> bool {
        let matches = |set: &Option<GlobSet>| set.as_ref().map(|set| set.is_match(OsStr::from_bytes(raw)));
        matches(&self.include).unwrap_or(true) && !matches(&self.exclude).unwrap_or(false)
    }

    /// Whether something below a directory may pass that could not be read. An include says nothing of names that are not
    /// known; an exclude has to match whatever may lie there, at any depth. Names of several shapes stand for all.
    pub fn may_admit_below(&self, directory: &[u8]) -> bool {
        const SHAPES: [&[u8]; 6] = [b"\x01", b"a", b"Z", b"7", b"\x01long \xff.name\x01", b"\x01 a/Z\x01/7.\x01a"];
        let excluded = |shape: &[u8]| {
            let name = [directory, b"/", shape].concat();
            self.exclude.as_ref().is_some_and(|set| set.is_match(OsStr::from_bytes(&name)))
        };
        !SHAPES.into_iter().all(excluded)
    }
}

fn compile(globs: &[String], option: &str) -> Result<Option<GlobSet>> {
    if globs.is_empty() {
        return Ok(None);
    }
    let refused = |glob: &str, why: &dyn std::fmt::Display| {
        let text = crate::display::escape(glob.as_bytes());
        Error::new(Kind::Config, format!("not a glob that {option} understands: {why}")).on(&text)
    };
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        set.add(GlobBuilder::new(glob).literal_separator(true).build().map_err(|e| refused(glob, &e.kind()))?);
    }
    set.build().map(Some).map_err(|e| refused("", &e))
}

#[cfg(test)]
mod tests {
    use super::Filter;

    #[test]
    fn include_first_then_exclude() {
        let filter = Filter::new(&["*.jpg".into(), "a/**".into()], &["a/secret*".into()]).unwrap();
        assert!(filter.admits(b"x.jpg") && filter.admits(b"a/b/c"));
        assert!(!filter.admits(b"x.png") && !filter.admits(b"b/x.jpg") && !filter.admits(b"a/secret.jpg"));
        assert!(Filter::new(&[], &[]).unwrap().admits(b"\xff"));
        assert!(Filter::new(&["[".into()], &[]).is_err());
    }

    #[test]
    fn an_unreadable_directory_is_left_out_only_where_all_of_it_is_excluded() {
        let filter = |include: &str, exclude: &str| Filter::new(&[include.into()], &[exclude.into()]).unwrap();
        assert!(filter("**/*.jpg", "other/**").may_admit_below(b"a/b"));
        assert!(filter("**/*.jpg", "a/b/*.tmp").may_admit_below(b"a/b"));
        for exclude in ["a/**", "a/b/**", "**/b/**", "a/b/{*,**/*}"] {
            assert!(!filter("**", exclude).may_admit_below(b"a/b"), "{exclude}");
        }
        for exclude in ["a/b", "a/b/*", "a/b/?", "**/?", "a/b/[!a-z]*", "a/b/**/*a", "a/b/[!A-Z]**"] {
            assert!(filter("**", exclude).may_admit_below(b"a/b"), "some names pass {exclude}");
        }
    }
}
