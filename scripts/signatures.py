"""Writes the options into the signatures and docstrings of the package, from the tables of the engine.

Usage: signatures.py [--check]. Explicit signatures are for editors and type checkers. They are between two marks in the
list of parameters; the entries under `Args:` have the same names. `--check` changes nothing, and fails if it would.
"""

from __future__ import annotations

import difflib
import functools
import importlib.machinery
import importlib.util
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parents[1] / "python" / "shoal"
Option = dict[str, Any]


@functools.cache
def tables() -> dict[str, list[Option]]:
    """Returns the engine's tables. The package itself is not imported: its signatures may be wrong."""
    (binding,) = PACKAGE.glob("_shoal*.so")
    loader = importlib.machinery.ExtensionFileLoader("_shoal", str(binding))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("_shoal", loader))  # type: ignore[arg-type]
    loader.exec_module(module)
    return module.options()  # type: ignore[no-any-return]


BEGIN, END = "# scripts/signatures.py writes these lines.", "# End."
WIDTH = 120
NO_NETWORK = {"keep_times", "dry_run", "part", "allow_different_listings", "ignore_vanished"}
OF_FILES = {"exact", "hard_links", "strict_attributes"}
ONLY_A_DESTINATION = OF_FILES | {
    *("overwrite", "keep_times", "durability", "journal", "resume", "dry_run", "allow_different_listings")
}
# Function -> its file, the tables of its options, and which of these it does not have, since they mean nothing there.
FUNCTIONS: dict[str, tuple[str, tuple[str, ...], set[str]]] = {
    "copy": ("_api.py", ("run", "tell"), set()),
    "read": ("_read.py", ("run", "read", "tell"), ONLY_A_DESTINATION | {"checksum"}),
    "save": ("_save.py", ("encode", "run", "tell"), NO_NETWORK | OF_FILES),
    "unzip": ("_unzip.py", ("archives", "run", "tell"), OF_FILES),
    "generate": (
        "_generate/__init__.py",
        ("encode", "run", "tell"),
        NO_NETWORK - {"part"} | OF_FILES | {"include", "exclude", "allow_empty", "limit_rate"},
    ),
    "list_objects": ("_list.py", ("run",), {option["name"] for option in tables()["run"]} - {"include", "exclude"}),
    "list_get": ("_sources.py", ("list_get",), set()),
    "s3": ("_sources.py", ("s3",), set()),
    "urls": ("_sources.py", ("urls",), set()),
    "files": ("_sources.py", ("files",), set()),
    "archives": ("_sources.py", ("archives",), set()),
    "parquet": ("_destinations.py", ("parquet",), set()),
}
# What is special about an option of one function.
TEXTS = {
    (
        "read",
        "part",
    ): "`(index, count)`: read only this part, so that several processes share the work. Parts count from "
    "0. Each object is in exactly one part, by the hash of its name. Objects of other parts do not count as listed.",
    (
        "read",
        "chunk_size",
    ): "Deliver larger objects in chunks of about this many bytes, in order, each with its `.offset`. "
    "Other objects may arrive in between. If an object fails in the middle, its first chunks have already arrived. By "
    "default an object is delivered whole, and one larger than `memory` is a failure.",
    ("read", "on_error"): 'What to do about failed objects. `"raise"` delivers all others, then the loop raises '
    '`ObjectsFailedError`; `"record"` only records them in `reader.report`; `"stop"` raises the exception of the first '
    "failure at once.",
    (
        "save",
        "resume",
    ): '`"auto"` continues with the same `source_id`; `"restart"` saves everything again, also with other options.',
    (
        "save",
        "memory",
    ): 'Maximum bytes held in memory at once: a number, or text such as `"256MiB"`. `items` waits while '
    "this is used up.",
    (
        "generate",
        "resume",
    ): '`"auto"` continues with the rest, or retries the failures if nothing else is left. `"failed"` '
    'retries only the failures. `"restart"` runs all ids again, also with other options.',
    ("generate", "workers"): 'How many processes; `"auto"` is one for each core.',
    (
        "generate",
        "nice",
    ): 'Leave the machine to others: `"auto"` is one process for two cores, and all of them have the '
    "lowest I/O priority and a low priority.",
    (
        "generate",
        "memory",
    ): 'Maximum bytes of data that wait to be written, over all processes: a number, or text such as `"256MiB"`.',
    ("unzip", "keep_times"): "Set the modification times that the archives have.",
    ("list_objects", "include"): "Only names that match one of these patterns, as for `shoal.copy`.",
    ("list_objects", "exclude"): "Skip names that match one of these patterns.",
}


def options_of(function: str) -> list[Option]:
    """Returns the options of a function."""
    _, parts, without = FUNCTIONS[function]
    return [option for part in parts for option in tables()[part] if option["name"] not in without]


def annotation(option: Option) -> str:
    """Returns the type of a parameter."""
    kind = str(option["type"]).replace("Texts", "str | Sequence[str]")
    return f"{kind} | None" if option["optional"] else kind


def default(option: Option) -> str:
    """Returns a default as Python code."""
    value: Any = option["default"]
    if option["environment"]:
        return str(option["name"].upper())
    if option["kind"] == "size" and value is not None:
        return f'"{value >> 20}MiB"'
    if option["kind"] == "count" and value is not None:
        return f"{value:_}" if value >= 10_000 else str(value)
    return repr(value).replace("'", '"')


def block(start: str, end: str, inner: list[str], text: str, *, where: str) -> str:
    """Replaces the lines between two lines.

    Raises:
        SystemExit: The text does not have them.
    """
    found = re.search(rf"^( *){re.escape(start)}\n(.*?)^ *{re.escape(end)}\n", text, re.MULTILINE | re.DOTALL)
    if found is None:
        sys.exit(f"error: {where} has no lines {start!r} and {end!r}")
    indent = found[1]
    lines = "".join(f"{indent}{line}\n" for line in [start, *inner, end])
    return text[: found.start()] + lines + text[found.end() :]


def documented(function: str, parameters: set[str], docstring: str) -> str:
    """Returns a docstring with the entries of the options: at the place of the first of them, or at the end."""
    options = options_of(function)
    names = {option["name"] for option in options}
    gone = {option["name"] for table in tables().values() for option in table} - parameters
    before, args, rest = docstring.partition("    Args:\n")
    section, gap, after = rest.partition("\n\n")
    entries = re.split(r"\n(?=        \w+: )", section)
    name = re.compile(r"        (\w+): ")
    kept = [(match[1], entry) for entry in entries if (match := name.match(entry)) and match[1] not in gone]
    place = next((at for at, (one, _) in enumerate(kept) if one in names), len(kept))
    own = []
    for option in options:
        text = TEXTS.get((function, option["name"]), " ".join(option["text"].split()))
        first, later = " " * 8, " " * 12
        filled = textwrap.fill(
            f"{option['name']}: {text}",
            WIDTH,
            initial_indent=first,
            subsequent_indent=later,
            break_long_words=False,
            break_on_hyphens=False,
        )
        own.append(filled)
    others = [entry for one, entry in kept if one not in names]
    place = min(place, len(others))
    return before + args + "\n".join([*others[:place], *own, *others[place:]]) + gap + after


def rewritten(function: str, text: str) -> str:
    """Returns the text of a file with the options of a function."""
    start = re.search(rf"^def {function}\(\n", text, re.MULTILINE)
    if start is None:
        sys.exit(f"error: there is no function {function} over several lines")
    head, body = text[: start.start()], text[start.start() :]
    own = [f"{option['name']}: {annotation(option)} = {default(option)}," for option in options_of(function)]
    body = block(BEGIN, END, own, body, where=function)
    begin = body.index('"""') + 3
    end = body.index('"""', begin)
    parameters = set(re.findall(r"^    (\w+): ", body[: body.index("\n) ->")], re.MULTILINE))
    return head + body[:begin] + documented(function, parameters, body[begin:end]) + body[end:]


def aliases() -> list[str]:
    """Returns the types of options that are words."""
    found: dict[str, str] = {}
    for options in tables().values():
        for option in options:
            if option["words"]:
                words = ", ".join(f'"{word}"' for word in option["words"])
                more = " | int" if option["kind"] == "word-or-count" else ""
                found[option["type"]] = f"{option['type']} = Literal[{words}]{more}"
    return [found[name] for name in sorted(found)]


def main() -> int:
    """Writes all files, or compares them."""
    texts = {"_options.py": block(BEGIN, END, aliases(), (PACKAGE / "_options.py").read_text(), where="_options.py")}
    for function, (file, _, _) in FUNCTIONS.items():
        texts[file] = rewritten(function, texts.get(file) or (PACKAGE / file).read_text())
    different = False
    for file, text in texts.items():
        ruff = [sys.executable, "-m", "ruff", "format", "--quiet", "--stdin-filename", str(PACKAGE / file), "-"]
        formatted = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout
        path = PACKAGE / file
        if formatted != path.read_text():
            different = True
            if "--check" in sys.argv:
                now = path.read_text().splitlines()
                sys.stdout.writelines(
                    f"{line}\n" for line in difflib.unified_diff(now, formatted.splitlines(), lineterm="")
                )
            else:
                path.write_text(formatted)
    if different and "--check" in sys.argv:
        print("error: signatures are not those of the engine's tables: run .venv/bin/python scripts/signatures.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
