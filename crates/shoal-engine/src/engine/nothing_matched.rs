//! Whether a listing selected nothing at all, and what the user probably meant: a pattern with a mistake must not look like
//! a finished job. Judged by what all sessions of the run have admitted. Not here: when it is asked (`commit.rs`).

use crate::display::count;
use crate::error::{Error, Kind};
use crate::options::TransferOptions;
use crate::report::{Counts, Reason, Skips};

/// The error of a run that has listed objects and admitted none of them, or of a pattern that no file matches. What has no
/// objects and was asked for all of them (an empty directory or list) is no error.
pub(crate) fn nothing_matched(
    total: &Counts,
    skips: &Skips,
    options: &TransferOptions,
    pattern: Option<&str>,
) -> Option<Error> {
    let why = match pattern {
        Some(pattern) if total.listed == 0 => format!("nothing matches \"{pattern}\""),
        _ if total.listed == 0 || total.listed > skips.not_admitted() => return None,
        _ => left_out(total, skips, options)?,
    };
    let error = Error::new(Kind::NothingMatched, why);
    let mut hints = hint(skips, options, pattern);
    hints.push("`allow_empty=True` accepts it");
    Some(error.hint(hints.join("; ")))
}

/// What left all of them out. `None`: there were only directories.
fn left_out(total: &Counts, skips: &Skips, options: &TransferOptions) -> Option<String> {
    let filters = match (options.include.is_empty(), options.exclude.is_empty()) {
        (false, true) => "by `include`",
        (true, false) => "by `exclude`",
        _ => "by `include` and `exclude`",
    };
    let mut causes = Vec::new();
    for (reason, times) in skips.iter() {
        let name = reason.as_str().replace('-', " ");
        match reason {
            Reason::Directory => {}
            Reason::Filtered => causes.push(filters.to_owned()),
            Reason::Special => causes.push(format!("{} special", count(times))),
            _ => causes.push(format!("{} {name}{}", count(times), if times == 1 { "" } else { "s" })),
        }
    }
    let all =
        if total.listed == 1 { "the only object was" } else { &format!("all {} objects were", count(total.listed)) };
    (!causes.is_empty()).then(|| format!("nothing matched: {all} left out, {}", causes.join(", ")))
}

/// The mistakes that people make.
fn hint(skips: &Skips, options: &TransferOptions, pattern: Option<&str>) -> Vec<&'static str> {
    let patterns = || options.include.iter().chain(&options.exclude).map(String::as_str).chain(pattern);
    // `{a,b}` is a choice.
    let mut hints = Vec::new();
    if patterns().any(|pattern| pattern.contains(',') && !pattern.contains('{')) {
        hints.push("a comma is a part of the pattern: pass several patterns one by one");
    } else if skips.of(Reason::Filtered) > 0 && !options.include.is_empty() && !options.exclude.is_empty() {
        hints.push("`exclude` is applied after `include`: what matches both is left out");
    } else if skips.of(Reason::Filtered) == 0 && skips.of(Reason::Link) > 0 {
        hints.push("`links=\"follow\"` copies what links lead to");
    } else if pattern.is_some_and(|pattern| pattern.contains('*') && !pattern.contains("**")) {
        hints.push("`*` does not match `/`: `**/` before it looks in all directories below");
    }
    hints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_left_out_is_nothing() {
        let judge = |listed, skips: &[(Reason, u64)], pattern| {
            let total = Counts { listed, ..Counts::default() };
            let skips = skips.iter().copied().collect();
            let options = TransferOptions { include: vec!["*.jpg".into()], ..TransferOptions::default() };
            nothing_matched(&total, &skips, &options, pattern).map(|error| error.why().to_owned())
        };
        assert_eq!(judge(0, &[], None), None, "an empty directory");
        assert_eq!(judge(0, &[], Some("a/*.jpg")).as_deref(), Some("nothing matches \"a/*.jpg\""));
        assert_eq!(judge(2, &[(Reason::Directory, 2)], None), None, "empty directories were made");
        for settled in [Reason::Duplicate, Reason::Vanished, Reason::Unchanged, Reason::Edited] {
            assert_eq!(judge(2, &[(Reason::Filtered, 1), (settled, 1)], None), None, "{settled:?} was admitted");
        }
        assert_eq!(judge(3, &[(Reason::Filtered, 2)], None), None, "one was written, or failed");
        let all = judge(3, &[(Reason::Filtered, 1), (Reason::Link, 2)], None);
        assert_eq!(all.as_deref(), Some("nothing matched: all 3 objects were left out, by `include`, 2 links"));
        let one = judge(1, &[(Reason::LoopingLink, 1)], None);
        assert_eq!(one.as_deref(), Some("nothing matched: the only object was left out, 1 looping link"));
    }

    #[test]
    fn the_hint_names_the_mistake() {
        let hint = |include: &[&str], exclude: &[&str], skips: &[(Reason, u64)], pattern| {
            let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
            let (include, exclude) = (texts(include), texts(exclude));
            let options = TransferOptions { include, exclude, ..TransferOptions::default() };
            hint(&skips.iter().copied().collect(), &options, pattern).concat()
        };
        let filtered = [(Reason::Filtered, 9)];
        for (hint, word) in [
            (hint(&["*.jpg,*.txt"], &[], &filtered, None), "comma"),
            (hint(&["*.jpg"], &["*"], &filtered, None), "after"),
            (hint(&[], &[], &[(Reason::Link, 3)], None), "links"),
            (hint(&[], &[], &[], Some("a/*.jpg")), "**/"),
            (hint(&["*.{jpg,png}"], &[], &filtered, None), ""),
        ] {
            assert!(hint.contains(word) && (word.is_empty() == hint.is_empty()), "{word}: {hint}");
        }
    }
}
