"""Refuses words and sentences that make documents and messages hard to understand.

- No pronoun for people (who, nobody, …) where a program, a server or a file is meant, and none of the PHRASES below.
- In the documents, no sentence of more than 30 words. Code and tables do not count.

An exception needs a line in ALLOWED. The words to use are in docs/glossary.md. Of the engine only string literals are
checked, which are what a user sees.

Usage, from the root of the project: check_words.py [FILE ...]
"""

import re
import sys
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

LONGEST = 30  # words in a sentence: style guides for technical writing ask for 20 to 30

# What is refused, and what to write instead.
PHRASES = {
    r"(?:who|whom|whoever|nobody|somebody|anybody|everybody)": "name the thing",
    r"(?:goes|gone|went|going|go) on(?!-| (?:the|a|standard|top|disk)\b)": "continue, resume",
    r"(?:be|been|is|are|was|were) had": "cannot be read, could not be fetched, is not available",
    r"(?:comes?|came|to|may|can|cannot) (?:to )?lie|(?:that|which|what) lies|lies (?:at|in|below|elsewhere)": "is",
    r"(?:is|are|was) (?-i:none)": "does not exist, has no …",
    r"(?<!there )(?:is|are) no (?!longer\b|more\b|less\b|such\b)": "is not a …, does not …",
    r"has no (?:place|elsewhere)": "does not accept, is not allowed",
    r"anew": "again, from the start",
    r"not both and not neither": "exactly one of",
    r"once more ends": "press Ctrl-C again",
    r"contradicts? (?:itself|its|each)": "is inconsistent",
    r"as ever": "as before",
    r"(?:gives?|given|gave) back": "return, release",
    r"(?:breaks?|broke|broken|breaking) off": "is interrupted, ends early",
    r"at the most": "at most",
    r"parted by": "separated by",
    r"stands? (?:in|wherever|behind|beside|elsewhere)": "is, works",
    r"(?:tried|tries) again": "retried, retries",
    r"the counts add up": "every file is accounted for",
}
REFUSED = [(re.compile(rf"\b(?:{phrase})\b", re.IGNORECASE), instead) for phrase, instead in PHRASES.items()]

# File, words that may stand in it, and why.
ALLOWED: dict[tuple[str, str], str] = {
    ("changelog.d/TEMPLATE.md", "who does"): "a person",
}

DOCUMENTS = ("*.md", "docs/*.md", "bench/*.md", "bench/results/README.md", "fuzz/*.md")
WHOLE = (
    "changelog.d/*.md",
    "Makefile",
    "scripts/*.py",
    "scripts/*.sh",
    "python/**/*.py",
    "python/**/*.pyi",
    "bench/python/**/*.py",
    "bench/limits/src/**/*.rs",
    "crates/shoal-core/src/**/*.rs",
    "crates/shoal-encode/src/**/*.rs",
    "crates/shoal-http/src/**/*.rs",
    "crates/shoal-python/src/**/*.rs",
    "crates/shoal-records/src/**/*.rs",
)
LITERALS = ("crates/shoal-engine/src/**/*.rs",)
NOT = (
    "scripts/check_words.py",  # this one and the next name the words that are refused
    "docs/glossary.md",
    "docs/command-reference.md",  # its text is checked where the command line has it
)
RUST = re.compile(
    r"""//[^\n]*|/\*.*?\*/|r(\#*)"(?P<raw>.*?)"\1|"(?P<text>(?:\\.|[^"\\])*)"|'(?:\\.|[^'\\])'""", re.DOTALL
)


def files(patterns: tuple[str, ...]) -> list[str]:
    """Returns the paths from the root that match."""
    return sorted({path.as_posix() for pattern in patterns for path in Path().glob(pattern)} - {*NOT})


def text_of(name: str) -> str:
    """Returns what is checked of a file, each line in its place."""
    text = Path(name).read_text()
    if name.startswith("crates/shoal-engine/"):
        return literals(text.split("#[cfg(test)]")[0])
    return text


def literals(source: str) -> str:
    """Returns the string literals of a Rust source, each on its line."""
    lines: list[str] = []
    for found in RUST.finditer(source):
        text = found["raw"] if found["raw"] is not None else found["text"]
        if text is not None:
            at = source.count("\n", 0, found.start())
            lines += [""] * (at - len(lines))
            lines[at:] = [" ".join([*lines[at:], *re.sub(r"\\\n\s*", "", text).split("\n")])]
    return "\n".join(lines)


def sentences(markdown: str) -> Iterator[tuple[int, str]]:
    """Yields each sentence of a document with the number of the line on which its paragraph begins."""
    fenced = False
    paragraph: list[str] = []
    first = 0
    for number, line in enumerate([*markdown.split("\n"), ""], 1):
        text = line.strip()
        if text.startswith("```"):
            fenced = not fenced
        is_code = fenced or text.startswith(("```", "|", "#", "<!--")) or (line.startswith("    ") and not paragraph)
        begins = re.match(r"(?:[-*]|\d+\.) ", text)
        if paragraph and (is_code or begins or not text):
            for sentence in re.split(r"(?<=[.!?:])[)*\"]*\s+", " ".join(paragraph)):
                yield first, sentence
            paragraph = []
        if text and not is_code:
            first = first if paragraph else number
            paragraph.append(text[begins.end() :] if begins else text)


def findings(name: str) -> Iterator[tuple[int, str]]:
    """Yields what is refused in a file, each with its line."""
    text = text_of(name)
    allowed = [words for file, words in ALLOWED if file == name]
    # Paragraphs are wrapped, so a phrase may cross a line end and the mark of a comment.
    lines = [re.sub(r"^\s*(?://[/!]?|#|-|\*)?\s*", "", line) for line in text.split("\n")]
    flat = " ".join(lines)
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    for pattern, instead in REFUSED:
        for found in pattern.finditer(flat):
            around = " ".join(flat[max(0, found.start() - 40) : found.end() + 40].split())
            if not any(words in around for words in allowed):
                yield bisect_right(starts, found.start()), f'"{found[0]}": say {instead}: … {around} …'
    if name in files(DOCUMENTS):
        for line, sentence in sentences(text):
            words = len(re.sub(r"`[^`]*`", "code", sentence).split())
            if words > LONGEST:
                yield line, f"a sentence of {words} words, at most {LONGEST}: {sentence[:90]} …"


def main(names: list[str]) -> int:
    """Prints what is refused; returns the exit code."""
    count = 0
    for name in names or files(DOCUMENTS + WHOLE + LITERALS):
        for line, message in sorted(findings(name)):
            count += 1
            print(f"{name}:{line}: {message}")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
