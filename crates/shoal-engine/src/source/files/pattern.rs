//! A glob over paths: where it begins, what matches, and which directories need not be entered.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use globset::{GlobBuilder, GlobMatcher};

use crate::display::escape;
use crate::error::{Error, Kind, Result};

/// Whether a text has characters that only a glob has.
pub(in crate::source) fn is_glob(text: &str) -> bool {
    text.contains(['*', '?', '[', '{'])
}

/// The longest directory without glob characters, and what is to match below it.
pub(in crate::source) fn split(glob: &str) -> (&str, &str) {
    let begins = glob.find(['*', '?', '[', '{', '\\']).unwrap_or(glob.len());
    match glob[..begins].rfind('/') {
        None => (".", glob),
        Some(0) => ("/", &glob[1..]),
        Some(at) => (&glob[..at], &glob[at + 1..]),
    }
}

/// What has to match below a root.
pub(super) struct Pattern {
    whole: GlobMatcher,
    /// What directories at each depth must match, as far as one component of the pattern speaks for one directory.
    steps: Vec<GlobMatcher>,
    /// Components of a path that matches, where all have as many.
    depth: Option<usize>,
}

impl Pattern {
    pub fn new(text: &str) -> Result<Pattern> {
        let compile = |text: &str| {
            let refused = |e: globset::Error| {
                Error::new(Kind::Config, format!("not a valid glob: {}", e.kind())).on(&escape(text.as_bytes()))
            };
            let glob = GlobBuilder::new(text).literal_separator(true).build().map_err(refused)?;
            Ok(glob.compile_matcher())
        };
        let whole = compile(text)?;
        let components: Vec<&str> = text.split('/').collect();
        // Alternatives and sets may hold a slash; then nothing is said about single components.
        let plain = !text.contains('{') && !components.iter().any(|part| part.contains('[') && !part.contains(']'));
        let fixed = components.iter().take_while(|part| plain && !part.contains("**")).count();
        let steps = components[..fixed].iter().map(|part| compile(part)).collect::<Result<_>>()?;
        Ok(Pattern { whole, steps, depth: (fixed == components.len()).then_some(fixed) })
    }

    /// As the user wrote it.
    pub fn text(&self) -> &str {
        self.whole.glob().glob()
    }

    /// Whether a path below the root matches.
    pub fn matches(&self, path: &[u8]) -> bool {
        self.whole.is_match(OsStr::from_bytes(path))
    }

    /// Whether something below the directory `name`, itself `depth` directories below the root, could match.
    pub fn enters(&self, depth: usize, name: &[u8]) -> bool {
        self.depth.is_none_or(|most| depth + 1 < most)
            && self.steps.get(depth).is_none_or(|step| step.is_match(OsStr::from_bytes(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glob_begins_where_its_first_character_is() {
        assert_eq!(split("a/b*/c"), ("a", "b*/c"));
        assert_eq!(split("/*.x"), ("/", "*.x"));
        assert_eq!(split("**/x"), (".", "**/x"));
        assert_eq!(split("/data/in/**"), ("/data/in", "**"));
        assert_eq!(split("../*"), ("..", "*"));
    }

    #[test]
    fn directories_that_cannot_hold_a_match_are_not_entered() {
        let enters = |glob: &str, path: &str| {
            let pattern = Pattern::new(glob).unwrap();
            path.split('/').enumerate().all(|(depth, name)| pattern.enters(depth, name.as_bytes()))
        };
        assert!(enters("a*/b/*.x", "ab/b") && !enters("a*/b/*.x", "ab/c") && !enters("a*/b/*.x", "ab/b/c"));
        assert!(enters("**/x", "a/b/c") && enters("a/**", "a/b/c") && !enters("a/**", "b"));
        assert!(!enters("*.x", "d.x"));
        assert!(enters("{a/b,c}/d", "c") && enters("{a/b,c}/d", "a/b"));
        assert!(Pattern::new("a[").is_err());
    }
}
