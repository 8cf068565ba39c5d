//! A glob over paths: its root, which paths match, and which directories need not be entered.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use globset::{GlobBuilder, GlobMatcher};

use crate::display::escape;
use crate::error::{Error, Kind, Result};

/// Whether a text has glob characters.
pub(in crate::source) fn is_glob(text: &str) -> bool {
    text.contains(['*', '?', '[', '{'])
}

/// Splits a glob into the longest directory without glob characters and the pattern below it.
pub(in crate::source) fn split(glob: &str) -> (&str, &str) {
    let begins = glob.find(['*', '?', '[', '{', '\\']).unwrap_or(glob.len());
    match glob[..begins].rfind('/') {
        None => (".", glob),
        Some(0) => ("/", &glob[1..]),
        Some(at) => (&glob[..at], &glob[at + 1..]),
    }
}

/// The pattern of a glob, below its root.
pub(super) struct Pattern {
    whole: GlobMatcher,
    /// What the directory at each depth must match, up to the first component that can match several levels.
    steps: Vec<GlobMatcher>,
    /// Number of components of a path that matches, if it is fixed.
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
        // Alternatives and sets may contain a slash. Then components cannot be matched one by one.
        let plain = !text.contains('{') && !components.iter().any(|part| part.contains('[') && !part.contains(']'));
        let fixed = components.iter().take_while(|part| plain && !part.contains("**")).count();
        let steps = components[..fixed].iter().map(|part| compile(part)).collect::<Result<_>>()?;
        Ok(Pattern { whole, steps, depth: (fixed == components.len()).then_some(fixed) })
    }

    /// Returns the pattern as the user wrote it.
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
