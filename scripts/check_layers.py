"""Refuses a dependency that points the wrong way, and the calls that have one place only.

The tables below are the rules; the rest reads the sources. Rust is read as text (comments, strings and test modules
taken out), Python as syntax trees. What a file re-exports with `pub use` counts as the thing itself.

Usage: check_layers.py [ROOT]
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

Route = tuple[str, ...]

BASE = {"partition", "session", "options", "report", "sink_state", "part"}
# What the traits of a source and of a sink speak of, in files of their own.
SOURCE = {"source!", "source::entries", "source::lane"}
SINK = {"sink!", "sink::flush", "sink::properties", "sink::start", "sink::writer"}

# Module of the engine crate -> what it may use besides itself, and why no more. "source!" is what source/mod.rs itself
# defines: the traits, and nothing behind them. The first part of a file's path is its module. "http" is shoal-http. The
# words of shoal-core are for all; cargo keeps both crates from knowing the engine.
RUST: dict[str, tuple[set[str], str]] = {
    **dict.fromkeys(BASE, (BASE, "it is the vocabulary of all the others, so it knows none of them")),
    "fs": (set(), "fs/ touches files and knows no job"),
    "hosts": ({"http::Targets"}, "hosts/ judges hosts, and knows no engine and no source"),
    "journal": (BASE | {"fs"}, "the journal stores what was committed, wherever it came from"),
    "source": (BASE | {"fs", "hosts", "http"}, "a source lists and fetches; sinks and engine can change without it"),
    "sink": (BASE | {"fs"}, "a sink writes; sources and the engine can change without it"),
    "engine": (
        BASE | {"hosts", "journal"} | SOURCE | SINK,
        "the engine knows no format: of source/ and sink/ it sees the traits, named one by one",
    ),
    "transfer": (
        BASE | {"fs", "journal", "source", "sink", "engine"},
        "transfer wires the parts of a run, and serve is not one",
    ),
    "listed": (
        BASE | SOURCE | {"engine::filter", "engine::listing", "hosts"},
        "a listing asks a source by the rules of a run, and is not one",
    ),
    "serve": (
        {"fs"},
        "serve is a program of its own that shares only files, and the words of shoal-core",
    ),
    "testing": (
        BASE
        | SOURCE
        | SINK
        | {
            "fs",
            "http::testing",
            "source::archive",
            "source::list_get",
            "source::memory",
            "source::tar",
            "source::zip",
            "sink::memory",
            "serve::fuzzing",
            "transfer::Transfer",
        },
        "the contract suites judge by the traits and a whole run, as one outside this crate can be judged too",
    ),
}

# What has one place only, where that is, and why. Testing is for tests, which may do as they like.
FILES = ({"fs", "serve", "testing"}, "only fs/ touches files: take what you need through crate::fs")
PRINTING = ({"testing"}, "the engine never prints: return it, count it in the report or hand it to progress")

# Names of files and folders that say nothing, so that in the end everything lives there.
VAGUE = {"utils", "util", "helpers", "common", "misc", "core", "manager"}

CLI_ONLY = {"click", "rich"}  # the package imports in under 50 ms, and only the command line draws
OPTIONAL_PLACES = (
    "ray.py",
    "_ray_nodes.py",
    "torch.py",
    "cli/bench.py",
)  # each importable alone, where what it needs is installed


def shipped_code(text: str) -> str:
    """Blanks comments, literals and `#[cfg(test)]` items out of Rust source, keeping its lines."""
    literal = r'//[^\n]*|/\*.*?\*/|\bb?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?\'(?:\\[^\n]{1,9}?|[^\\\'\n])\''
    text = re.sub(literal, lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.DOTALL)
    for found in re.finditer(r"#\[cfg\((?:test|any\(test,[^\]]*)\)\]", text):
        end, depth = found.end(), 0
        while end < len(text):
            depth += {"{": 1, "[": 1, "(": 1, "}": -1, "]": -1, ")": -1}.get(text[end], 0)
            end += 1
            if depth == 0 and text[end - 1] in ";}":
                break
        text = text[: found.start()] + re.sub(r"[^\n]", " ", text[found.start() : end]) + text[end:]
    return text


def use_tree(text: str, at: int) -> list[tuple[Route, str]]:
    """Reads the tree `a::{b, c as d, e::*}` that begins at a place: each path, and the name it gets."""

    def eat(pattern: str) -> str | None:
        nonlocal at
        found = re.compile(rf"\s*({pattern})").match(text, at)
        at = found.end() if found else at
        return found[1] if found else None

    def tree(before: Route) -> list[tuple[Route, str]]:
        if eat(r"\{"):
            leaves = []
            while (start := at) and not eat(r"\}"):
                leaves += tree(before)
                eat(",")
                if at == start:
                    break  # no use tree: a struct's fields, a block
            return leaves
        if not (part := eat(r"\w+|\*")):
            return []
        path = before if part == "self" and before else (*before, part)
        if eat(r"::(?!\s*<)"):
            return tree(path)
        return [(path, eat(r"as\s+\w+") or path[-1])]

    return [(path, name.split()[-1]) for path, name in tree(())]


def line_at(text: str, at: int) -> int:
    """Returns the number of the line that a place is on."""
    return text.count("\n", 0, at) + 1


class Crate:
    """The engine's sources: which modules there are, and what they name."""

    def __init__(self, src: Path) -> None:
        """Reads every file below `src` but those of tests; models are tests in virtual time."""
        files = (
            path for path in sorted(src.rglob("*.rs")) if {"tests", "models"}.isdisjoint((path.stem, path.parent.name))
        )
        self.files = {path: shipped_code(path.read_text()) for path in files}
        self.routes = {path: self.route(path.relative_to(src)) for path in self.files}
        self.modules = set(self.routes.values())
        self.renamed: dict[Route, Route] = {}  # what `pub use` makes of a path
        for path, text in self.files.items():
            for found in re.finditer(r"\bpub(?:\([^)]*\))?\s+use\s+", text):
                for target, name in use_tree(text, found.end()):
                    self.renamed[(*self.routes[path], name)] = self.absolute(path, target)

    @staticmethod
    def route(relative: Path) -> Route:
        """Returns the module path of a file."""
        parts = relative.with_suffix("").parts
        return parts[:-1] if parts[-1] in {"mod", "lib"} else parts

    def absolute(self, path: Path, target: Route) -> Route:
        """Resolves crate, self, super and the names of child modules; other crates' paths come back as they are."""
        here = self.routes[path]
        if target[0] in {"crate", "shoal_engine"}:
            return target[1:]
        if target[0] == "shoal_http":
            return ("http", *target[1:])
        if target[0] in {"self", "super"}:
            up = sum(1 for part in target if part == "super")
            return here[: len(here) - up] + tuple(part for part in target if part not in {"self", "super"})
        return (*here, *target) if (*here, target[0]) in self.modules else ("::", *target)

    def used(self, path: Path) -> Iterator[tuple[int, Route]]:
        """Yields the place and full path of everything in this crate that a file names."""
        text = self.files[path]
        for found in re.finditer(r"(?<![\w:])(?:crate|shoal_engine|super|self)::|(?<!\w)shoal_http\b", text):
            for target, _ in use_tree(text, found.start()):
                full, seen = self.absolute(path, target), set[Route]()
                while full not in seen:
                    seen.add(full)
                    # A function may bear its module's name: with more behind it, the module is meant.
                    known = next((full[:n] for n in range(len(full), 0, -1) if self.is_renamed(full, n)), None)
                    full = self.renamed[known] + full[len(known) :] if known else full
                yield found.start(), full

    def is_renamed(self, full: Route, length: int) -> bool:
        """Tells whether the beginning of a path is a name that some `pub use` made."""
        begin = full[:length]
        return begin in self.renamed and not (length < len(full) and begin in self.modules)

    def allows(self, rights: set[str], target: Route) -> bool:
        """Tells whether rights such as "name", "source::memory" or "source!" cover a path."""
        trait_only = target[:2] not in self.modules and target[-1] != "*"
        names = {target[0], "::".join(target[:2])} | ({f"{target[0]}!"} if trait_only else set())
        return bool(names & rights)


def one_place_faults(module: Route, text: str) -> Iterator[tuple[int, str]]:
    """Yields the place and the fault of every call that this module may not make."""
    if not FILES[0] & set(module):
        for found in re.finditer(r"\b(?:std|tokio|rustix)::", text):
            for target, _ in use_tree(text, found.start()):
                if target[1:2] == ("fs",):
                    yield found.start(), f"`{'::'.join(target)}` may not stand here: {FILES[1]}"
    if not PRINTING[0] & set(module):
        for found in re.finditer(r"\b(?:e?print(?:ln)?|dbg)!", text):
            yield found.start(), f"`{found[0]}` may not stand here: {PRINTING[1]}"


def file_faults(root: Path, path: Path, module: Route, text: str) -> Iterator[str]:
    """Yields what is wrong in a file whatever it uses."""
    where = path.relative_to(root).as_posix()
    if not path.read_text().startswith("//!"):
        yield f"{where}:1: does not begin with a module doc (//!): what is here, and what is not"
    for at, fault in one_place_faults(module, text):
        yield f"{where}:{line_at(text, at)}: {fault}"


def rust_faults(root: Path) -> Iterator[str]:
    """Yields what is wrong in the engine crate, and in those below it."""
    for path in sorted(path for name in ("core", "http") for path in (root / f"crates/shoal-{name}/src").rglob("*.rs")):
        yield from file_faults(root, path, (), shipped_code(path.read_text()))
    crate = Crate(root / "crates/shoal-engine/src")
    tops = {route[0] for route in crate.modules if route} | {"http"}
    for path, text in crate.files.items():
        where = path.relative_to(root).as_posix()
        module = crate.routes[path][:1]
        yield from file_faults(root, path, module, text)
        if not module:
            continue  # lib.rs maps the crate and re-exports from all of it
        if module[0] not in RUST:
            yield f"{where}:1: no rule for the module {module[0]}: say in scripts/check_layers.py what it may use"
            continue
        rights, why = RUST[module[0]]
        for at, target in crate.used(path):
            if target and target[0] in tops - set(module) and not crate.allows(rights, target):
                yield f"{where}:{line_at(text, at)}: {module[0]} may not use {'::'.join(target)}: {why}"


def imports(tree: ast.Module) -> Iterator[tuple[int, str, bool]]:
    """Yields line, full name and whether it runs at import, of every import but those for type checkers."""

    def walk(node: ast.AST, at_import: bool) -> Iterator[tuple[int, str, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and ast.unparse(child.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}:
                for other in child.orelse:
                    yield from walk(ast.Module([other], []), at_import)
            elif isinstance(child, ast.Import):
                yield from ((child.lineno, alias.name, at_import) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                # Relative imports are refused by ruff, so that a name here is always a full one.
                yield from ((child.lineno, f"{child.module}.{alias.name}", at_import) for alias in child.names)
            else:
                function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                yield from walk(child, at_import and not function)

    yield from walk(tree, True)


def python_faults(root: Path) -> Iterator[str]:
    """Yields what is wrong in the Python package."""
    package = root / "python/shoal"
    for path in sorted([*package.rglob("*.py"), *package.rglob("*.pyi")]):
        where = path.relative_to(package).as_posix()
        in_cli = where.startswith("cli/") or where == "__main__.py"
        for line, name, at_import in imports(ast.parse(path.read_text())):
            top = name.split(".")[0]
            why = None
            if f"{name}.".startswith("shoal.cli.") and not in_cli:
                why = "the library does not know the command line"
            elif top == "shoal_bench" and where != "cli/bench.py":
                why = "the lab is a package of its own: only the command `shoal bench` loads it"
            elif top in CLI_ONLY and not in_cli:
                why = "only the command line draws, and the package imports in under 50 ms"
            elif (
                at_import
                and path.suffix == ".py"
                and top not in sys.stdlib_module_names | CLI_ONLY | {"shoal"}
                and not where.startswith(OPTIONAL_PLACES)
            ):
                why = "an optional package is imported where it is used, so that shoal works without it"
            if why:
                yield f"python/shoal/{where}:{line}: may not import {name}: {why}"


def lab_faults(root: Path) -> Iterator[str]:
    """Yields what the lab imports of shoal that is not public."""
    for path in sorted((root / "bench").rglob("*.py")):
        for line, name, _ in imports(ast.parse(path.read_text())):
            package, _, inner = name.partition(".")
            private = inner.startswith("_") and not inner.endswith("__")
            if package == "shoal" and (private or f"{inner}.".startswith("cli.")):
                where = path.relative_to(root).as_posix()
                yield f"{where}:{line}: may not import {name}: the lab uses what every user can use"


def vague_names(root: Path) -> Iterator[str]:
    """Yields files and folders whose name does not say what they hold."""
    for base in ("bench", "crates", "python", "tests", "scripts"):
        for path in sorted((root / base).rglob("*")):
            if path.stem in VAGUE and (path.is_dir() or path.suffix in {".rs", ".py"}):
                yield f"{path.relative_to(root).as_posix()}: {path.stem} says nothing: name it after what it holds"


def main(root: Path) -> int:
    """Prints every fault; returns the exit code."""
    faults = [*rust_faults(root), *python_faults(root), *lab_faults(root), *vague_names(root)]
    print(*faults, sep="\n", end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()))
