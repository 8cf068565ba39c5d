//! `include` and `exclude`: which names are wanted at all, by the rules of `.gitignore`.
//!
//! - A pattern without a slash matches the last part of a name, in any directory: `*.json`, `build`.
//! - A slash at the front or in the middle ties it to the top: `/build`, `logs/*.txt`; `**/logs/*.txt` unties it.
//! - A slash at the end matches directories only, and takes all that lies below: `build/`.
//! - An exclude that matches a directory leaves out all that lies below, with or without that slash.
//!
//! `*` and `?` stop at a slash, `**` does not. Not here: globs that are sources (`source/files/pattern.rs`).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use globset::{Candidate, GlobBuilder, GlobSet, GlobSetBuilder};

use crate::display::{count, escape};
use crate::error::{Error, Kind, Result};
use crate::source::Unlisted;

/// Patterns that a note names; of more it says how many.
const NAMED_MAX: usize = 5;

/// Compiled patterns.
pub(crate) struct Filter {
    include: Option<Patterns>,
    exclude: Option<Patterns>,
}

impl Filter {
    pub fn new(include: &[String], exclude: &[String]) -> Result<Filter> {
        let compile = |patterns: &[String], option| match patterns {
            [] => Ok(None),
            patterns => Patterns::new(patterns, option).map(Some),
        };
        Ok(Filter { include: compile(include, INCLUDE)?, exclude: compile(exclude, EXCLUDE)? })
    }

    /// Whether a name passes: some include matches, if there are any, and no exclude does.
    pub fn admits(&self, name: &[u8], directory: bool) -> bool {
        let name = Candidate::from_bytes(name);
        let matches = |patterns: &Patterns| patterns.matches(&name, directory);
        let included = self.include.as_ref().is_none_or(matches);
        // Where nothing is left to learn of the excludes, they need not be asked.
        match &self.exclude {
            Some(exclude) if included || exclude.has_idle() => !matches(exclude) && included,
            _ => included,
        }
    }

    /// Whether something may pass of what could not be listed, and is named like this.
    pub fn may_admit(&self, unlisted: Unlisted, name: &[u8]) -> bool {
        match unlisted {
            Unlisted::Below => self.may_admit_below(name),
            Unlisted::Anywhere | Unlisted::Itself => true,
        }
    }

    /// Whether something below a directory may pass that could not be read. An include says nothing of names that are not
    /// known. An exclude must match the directory, or everything in it: what is not sure to be excluded is not left out.
    fn may_admit_below(&self, directory: &[u8]) -> bool {
        self.exclude.as_ref().is_none_or(|exclude| !exclude.covers(&Candidate::from_bytes(directory)))
    }

    /// Says which patterns matched none of `names` names.
    pub fn notes(&self, names: u64) -> Vec<String> {
        [&self.include, &self.exclude].into_iter().flatten().filter_map(|patterns| patterns.note(names)).collect()
    }
}

const INCLUDE: &str = "include";
const EXCLUDE: &str = "exclude";

/// The patterns of one option.
struct Patterns {
    option: &'static str,
    texts: Vec<String>,
    /// What a name matches, whatever it is.
    names: Globs,
    /// What a directory matches besides: patterns that end with a slash.
    directories: Globs,
    /// Of excludes: directories of which nothing passes.
    whole: Globs,
    /// Which patterns have matched, and how many have not. Once all have, a name costs no more than a search.
    met: Vec<AtomicBool>,
    idle: AtomicUsize,
}

/// Globs, and the number of the pattern that each is made of.
struct Globs {
    set: GlobSet,
    of: Vec<usize>,
}

impl Patterns {
    fn new(texts: &[String], option: &'static str) -> Result<Patterns> {
        let (mut names, mut directories, mut whole) = (Vec::new(), Vec::new(), Vec::new());
        for (number, text) in texts.iter().enumerate() {
            let refused = |why: &str| {
                let why = format!("not a valid `{option}` pattern: {why}");
                Error::new(Kind::Config, why).on(&escape(text.as_bytes()))
            };
            let Rule { glob, directory } = Rule::of(text).ok_or_else(|| refused("it is empty"))?;
            let add = |globs: &mut Vec<_>, glob: &str| -> Result<()> {
                let glob = GlobBuilder::new(glob).literal_separator(true).build();
                globs.push((glob.map_err(|e| refused(&e.kind().to_string()))?, number));
                Ok(())
            };
            add(if directory { &mut directories } else { &mut names }, &glob)?;
            if directory || option == EXCLUDE {
                add(&mut names, &format!("{glob}/**"))?;
            }
            if option == EXCLUDE {
                // Of `dir/*` and `dir/**` every name in the directory matches, and so all that lies below.
                let above = glob.strip_suffix("/**").or_else(|| glob.strip_suffix("/*")).filter(|_| !directory);
                for covered in [Some(&*glob), above].into_iter().flatten() {
                    add(&mut whole, covered)?;
                    add(&mut whole, &format!("{covered}/**"))?;
                }
            }
        }
        let set = |globs: Vec<(globset::Glob, usize)>| -> Result<Globs> {
            let mut set = GlobSetBuilder::new();
            globs.iter().for_each(|(glob, _)| {
                set.add(glob.clone());
            });
            let set = set.build().map_err(|e| Error::new(Kind::Config, format!("`{option}` is too large: {e}")))?;
            Ok(Globs { set, of: globs.into_iter().map(|(_, number)| number).collect() })
        };
        let (met, idle) = (texts.iter().map(|_| AtomicBool::new(false)).collect(), AtomicUsize::new(texts.len()));
        let (names, directories, whole) = (set(names)?, set(directories)?, set(whole)?);
        Ok(Patterns { option, texts: texts.to_vec(), names, directories, whole, met, idle })
    }

    fn matches(&self, name: &Candidate<'_>, directory: bool) -> bool {
        self.search(&self.names, name) | (directory && self.search(&self.directories, name))
    }

    fn covers(&self, directory: &Candidate<'_>) -> bool {
        self.search(&self.whole, directory)
    }

    fn search(&self, globs: &Globs, name: &Candidate<'_>) -> bool {
        if !self.has_idle() {
            return globs.set.is_match_candidate(name);
        }
        let mut matching = Vec::new(); // takes no memory before something matches
        globs.set.matches_candidate_into(name, &mut matching);
        for &glob in &matching {
            let met = &self.met[globs.of[glob]];
            if !met.load(Relaxed) && !met.swap(true, Relaxed) {
                self.idle.fetch_sub(1, Relaxed);
            }
        }
        !matching.is_empty()
    }

    /// Whether some pattern has not matched anything yet.
    fn has_idle(&self) -> bool {
        self.idle.load(Relaxed) > 0
    }

    fn note(&self, names: u64) -> Option<String> {
        let idle = self.texts.iter().zip(&self.met).filter(|(_, met)| !met.load(Relaxed));
        let mut idle: Vec<String> = idle.map(|(text, _)| format!("\"{}\"", escape(text.as_bytes()))).collect();
        let patterns = if idle.len() == 1 { "pattern" } else { "patterns" };
        let more = idle.len().saturating_sub(NAMED_MAX);
        if more > 0 {
            idle.truncate(NAMED_MAX);
            idle.push(format!("{more} more"));
        }
        let last = idle.pop()?;
        let list = if idle.is_empty() { last } else { format!("{} and {last}", idle.join(", ")) };
        let of = if names == 1 { "the 1 name".to_owned() } else { format!("{} names", count(names)) };
        Some(format!("the `{}` {patterns} {list} matched none of {of}", self.option))
    }
}

/// A pattern as a glob of whole names.
struct Rule {
    glob: String,
    /// Directories only.
    directory: bool,
}

impl Rule {
    /// `None`: nothing is left of it.
    fn of(text: &str) -> Option<Rule> {
        let pattern = text.trim_end_matches('/');
        let anchored = pattern.contains('/');
        let pattern = pattern.strip_prefix('/').unwrap_or(pattern);
        if pattern.is_empty() {
            return None;
        }
        let directory = text.ends_with('/');
        let glob = match (without_slash(pattern), anchored) {
            (pattern, _) if pattern == "**" => "**/*".to_owned(),
            (pattern, false) => format!("**/{pattern}"),
            // What lies in a directory below `a` is not all that lies below `a`.
            (pattern, true) if directory && pattern.ends_with("/**") => format!("{pattern}/*"),
            (pattern, true) => pattern,
        };
        Some(Rule { glob, directory })
    }
}

/// The pattern with a slash added to each set that is negated: globset has `[!a]` match a slash.
fn without_slash(pattern: &str) -> String {
    let mut text = String::with_capacity(pattern.len() + 1);
    let mut rest = pattern;
    while let Some(at) = rest.find(['\\', '[']) {
        let (before, from) = rest.split_at(at);
        text.push_str(before);
        let negated = from.starts_with("[!") || from.starts_with("[^");
        // A bracket that comes first is a member of the set.
        let close = from.char_indices().skip(2 + usize::from(negated)).find(|(_, c)| *c == ']').map(|(at, _)| at);
        let length = match (from.starts_with('['), close) {
            (true, Some(close)) if negated => {
                let dash = usize::from(from[..close].ends_with('-')); // stays last: else it is a range
                text.push_str(&from[..close - dash]);
                text.push('/');
                rest = &from[close - dash..];
                1 + dash
            }
            (true, Some(close)) => {
                rest = from;
                close + 1
            }
            (true, None) => {
                rest = from;
                from.len() // an error, as globset will say
            }
            (false, _) => {
                rest = from;
                1 + from[1..].chars().next().map_or(0, char::len_utf8)
            }
        };
        text.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::{Filter, without_slash};

    fn filter(include: &[&str], exclude: &[&str]) -> Filter {
        let strings = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        Filter::new(&strings(include), &strings(exclude)).unwrap()
    }

    #[test]
    fn include_first_then_exclude() {
        let filter = filter(&["*.jpg", "a/**"], &["a/secret*"]);
        assert!(filter.admits(b"x.jpg", false) && filter.admits(b"b/x.jpg", false) && filter.admits(b"a/b/c", false));
        assert!(!filter.admits(b"x.png", false) && !filter.admits(b"a/secret.jpg", false));
        assert!(!filter.admits(b"a/secrets/x.jpg", false), "all below a directory that is excluded");
        assert!(Filter::new(&[], &[]).unwrap().admits(b"\xff", false));
        for wrong in ["[", "", "/", "//", "[!", "a{b"] {
            assert!(Filter::new(&[wrong.into()], &[]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_slash_says_where_a_pattern_matches() {
        // Pattern, name, whether it is a directory: as an include, as an exclude.
        let rows = [
            ("*.json", "x.json", false, true, true),
            ("*.json", "a/b/x.json", false, true, true),
            ("*.json", "x.json/y", false, false, true),
            ("dir", "dir", false, true, true),
            ("dir", "a/dir/b/c", false, false, true),
            ("dir", "a/redir/c", false, false, false),
            ("dir/", "dir", false, false, false),
            ("dir/", "a/dir", true, true, true),
            ("dir/", "a/dir/b/c", false, true, true),
            ("/dir", "a/dir", false, false, false),
            ("/dir", "dir", false, true, true),
            ("/dir/", "dir/a/b", false, true, true),
            ("/dir/", "a/dir/b", false, false, false),
            ("a/*.txt", "a/x.txt", false, true, true),
            ("a/*.txt", "b/a/x.txt", false, false, false),
            ("a/*.txt", "a/b/x.txt", false, false, false),
            ("**/a/*.txt", "b/a/x.txt", false, true, true),
            ("**/a/*.txt", "a/x.txt", false, true, true),
            ("a/**", "a", false, false, false),
            ("a/**", "a/b/c", false, true, true),
            ("a/**/c", "a/c", false, true, true),
            ("a/**/c/", "a/b/b/c/d", false, true, true),
            ("**", "a/b", false, true, true),
            ("*", "a/b", false, true, true),
            ("/*", "a/b", false, false, true),
            ("**/", "a", false, false, false),
            ("/**/", "a", false, false, false),
            ("/**/", "a/b", false, true, true),
            ("**/", "a/b", false, true, true),
            ("a/**/", "a/b", false, false, false),
            ("a/**/", "a/b/c", false, true, true),
            ("x[!a]y", "x/y", false, false, false),
            ("x[!a-]y", "xby", false, true, true),
            ("{a,b}/", "c/b/d", false, true, true),
        ];
        for (pattern, name, directory, included, excluded) in rows {
            let name = name.as_bytes();
            assert_eq!(filter(&[pattern], &[]).admits(name, directory), included, "include {pattern} {name:?}");
            assert_eq!(!filter(&[], &[pattern]).admits(name, directory), excluded, "exclude {pattern} {name:?}");
        }
    }

    #[test]
    fn a_negated_set_holds_a_slash() {
        let rows = [
            ("a", "a"),
            ("[!a]b", "[!a/]b"),
            ("[^]a]", "[^]a/]"),
            ("[!a-]x[b]", "[!a/-]x[b]"),
            ("\\[!a]", "\\[!a]"),
            ("[]!a][!ü]", "[]!a][!ü/]"),
            ("[!a", "[!a"),
            ("ü\\", "ü\\"),
        ];
        for (pattern, wanted) in rows {
            assert_eq!(without_slash(pattern), wanted);
        }
    }

    #[test]
    fn an_unreadable_directory_is_left_out_only_where_all_of_it_is_excluded() {
        let may = |exclude: &str| filter(&["**/*.jpg"], &[exclude]).may_admit_below(b"a/b");
        for exclude in
            ["a/**", "a/b/**", "**/b/**", "a", "a/", "b", "/a/b", "a/b/", "a/b/*", "a/*", "*", "**", "?", "[!c]"]
        {
            assert!(!may(exclude), "{exclude}");
        }
        for exclude in ["other/**", "a/b/*.tmp", "/b", "a/b/?", "**/??", "a/b/[!q]*", "a/b/**/*a", "a/b/*/", "a/b/**/"]
        {
            assert!(may(exclude), "some names pass {exclude}");
        }
    }

    #[test]
    fn patterns_that_match_nothing_are_named() {
        let filter = filter(&["*.jsn", "*.json"], &["tmp/", "old"]);
        for name in ["a/x.json", "b", "tmp", "tmp/x.json"] {
            filter.admits(name.as_bytes(), false);
        }
        assert_eq!(
            filter.notes(20_000),
            [
                "the `include` pattern \"*.jsn\" matched none of 20,000 names",
                "the `exclude` pattern \"old\" matched none of 20,000 names",
            ]
        );
        assert!(!filter.may_admit_below(b"old"), "an unreadable directory");
        assert_eq!(filter.notes(1), ["the `include` pattern \"*.jsn\" matched none of the 1 name"]);
        filter.admits(b"x.jsn", false);
        assert!(filter.notes(5).is_empty());
        let many = super::Filter::new(&[], &(0..7).map(|n| n.to_string()).collect::<Vec<_>>()).unwrap();
        let text = "the `exclude` patterns \"0\", \"1\", \"2\", \"3\", \"4\" and 2 more matched none of 9 names";
        assert_eq!(many.notes(9), [text]);
    }
}
