"""The project's own checks refuse what they are there to refuse, and let pass what is right."""

import contextlib
import io
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent.parent / "scripts"
DOC = "//! A module.\n"
ENGINE = "crates/shoal-engine/src"


def start_check(script: str, *arguments: Path) -> tuple[int, str]:
    """Starts one check in an interpreter of its own; returns its exit code and its output."""
    done = subprocess.run([sys.executable, SCRIPTS / script, *arguments], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    return done.returncode, done.stdout


def run_check(script: str, *arguments: Path) -> tuple[int, str]:
    """Does the same in this interpreter, which saves the start of another one."""
    output = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(output):
        patch.setattr(sys, "argv", [str(SCRIPTS / script), *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(SCRIPTS / script), run_name="__main__")
    assert isinstance(ended.value.code, int)
    return ended.value.code, output.getvalue()


def write(root: Path, files: dict[str, str]) -> Path:
    """Lays a tree of files."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    """A small engine and package in which every layer is used as it should be."""
    sources = {
        "lib.rs": "pub mod part;\npub mod sink;\nmod transfer;\npub use part::Part;\npub use sink::dir::DirSink;\n",
        "part.rs": "pub struct Part;\n",
        "report.rs": "use crate::part::Part;\nuse shoal_core::error::Error;\n",
        "fs/mod.rs": "use std::fs;\nuse shoal_core::{error::Error, name::Name};\n",
        "hosts/mod.rs": "use shoal_http::Targets;\n",
        "journal/mod.rs": "use crate::{fs, partition::Partition};\n",
        "partition.rs": "pub struct Partition;\n",
        "source/mod.rs": "pub mod files;\npub mod memory;\npub use memory::Memory;\npub trait Source {}\n",
        "source/files.rs": "use super::Source;\nuse crate::fs;\nuse shoal_http::Client;\n",
        "source/memory.rs": "pub struct Memory;\n",
        "sink/mod.rs": "pub mod dir;\npub trait Sink {}\n",
        "sink/dir.rs": "use crate::{Part, fs};\n",
        "engine/mod.rs": "use crate::{journal::Journal, sink::Sink, source::{Source as From}};\n",
        "transfer.rs": "use crate::{engine, sink::dir::DirSink, source::files, source::*};\n",
        "serve/mod.rs": "use std::fs::File;\nuse crate::fs;\n",
        "testing/mod.rs": "use crate::source::{Source, memory::Memory};\nfn show() { println!(); }\n",
    }
    package = {
        "__init__.py": "from shoal._api import copy\n",
        "__main__.py": "from shoal.cli import main\n",
        "_api.py": "import os\n\ndef arrow():\n    import pyarrow\n",
        "cli/__init__.py": "import click\nfrom shoal import copy\n",
        "cli/bench.py": "from shoal_bench.cli import command\n",
    }
    files = {f"{ENGINE}/{name}": DOC + text for name, text in sources.items()}
    return write(tmp_path, files | {f"python/shoal/{name}": text for name, text in package.items()})


def test_layers_used_as_they_should_be_pass(engine: Path) -> None:
    assert run_check("check_layers.py", engine) == (0, "")


@pytest.mark.parametrize("script", ["check_layers.py", "check_sizes.py", "check_licences.py"])
def test_a_check_that_is_started_says_the_same(engine: Path, script: str) -> None:
    subprocess.run(["git", "init", "--quiet", engine], check=True)
    (engine / ENGINE / "part.rs").write_text("use crate::fs;\n" * 900)
    what = engine
    if script == "check_licences.py":
        what = engine / "metadata.json"
        package = {"id": "used", "name": "used", "version": "1.2.3", "license": "GPL-3.0-only"}
        what.write_text(json.dumps({"packages": [package], "resolve": {"nodes": [{"id": "used"}]}}))
    code, output = start_check(script, what)
    assert (code, output) == run_check(script, what)
    assert code == 1
    assert output


@pytest.mark.parametrize(
    ("file", "line", "refused"),
    [
        ("part.rs", "use crate::fs;", "part may not use fs"),
        ("fs/mod.rs", "use shoal_http::Client;", "fs may not use http::Client"),
        ("fs/mod.rs", "use crate::report::Report;", "fs may not use report::Report"),
        ("hosts/mod.rs", "use shoal_http::Client;", "hosts may not use http::Client"),
        ("hosts/mod.rs", "use super::fs::Dir;", "hosts may not use fs::Dir"),
        ("journal/mod.rs", "use crate::engine::Queue;", "journal may not use engine::Queue"),
        ("source/files.rs", "use crate::{part::Part, sink::{dir as d}};", "source may not use sink::dir"),
        ("source/files.rs", "fn f() { crate::engine::run::<u8>() }", "source may not use engine::run"),
        ("source/files.rs", "use crate::journal as notes;", "source may not use journal"),
        ("source/files.rs", "use crate::DirSink;", "source may not use sink::dir::DirSink"),
        ("sink/dir.rs", "use crate::source::Source;", "sink may not use source::Source"),
        ("sink/dir.rs", "use shoal_http::Client;", "sink may not use http::Client"),
        ("sink/dir.rs", "use ::shoal_http::Client;", "sink may not use http::Client"),
        ("sink/dir.rs", "use shoal_http as h;", "sink may not use http"),
        ("../../shoal-http/src/fs.rs", "use std::fs::File;", "`std::fs::File` may not stand here"),
        ("../../shoal-core/src/name.rs", 'fn f() { println!("x") }', "`println!` may not stand here"),
        ("engine/mod.rs", "use crate::source::files::Files;", "engine may not use source::files::Files"),
        ("engine/mod.rs", "use crate::source::Memory;", "engine may not use source::memory::Memory"),
        ("engine/mod.rs", "use crate::{\n    sink::{Sink, dir},\n};", "engine may not use sink::dir"),
        ("engine/mod.rs", "use crate::source::*;", "engine may not use source::*"),
        ("engine/mod.rs", "use crate::fs::Dir;", "engine may not use fs::Dir"),
        ("engine/mod.rs", "use crate::transfer::Transfer;", "engine may not use transfer::Transfer"),
        ("serve/mod.rs", "use crate::engine::Queue;", "serve may not use engine::Queue"),
        ("transfer.rs", "use crate::testing::faults;", "transfer may not use testing::faults"),
        ("testing/mod.rs", "use crate::source::files::Files;", "testing may not use source::files::Files"),
        ("sink/dir.rs", "use std::fs::File;", "`std::fs::File` may not stand here: only fs/ touches files"),
        ("sink/dir.rs", "use std::{io, fs::{self as f}};", "`std::fs` may not stand here"),
        ("sink/dir.rs", "use std::{fmt, fs, io};", "`std::fs` may not stand here"),
        ("journal/mod.rs", "use rustix::fs::flock;", "`rustix::fs::flock` may not stand here"),
        ("engine/mod.rs", 'fn f() { eprintln!("x") }', "`eprintln!` may not stand here: the engine never prints"),
        ("ftp/mod.rs", "pub struct Ftp;", "no rule for the module ftp"),
        ("part.rs", "// use crate::fs;", None),
        ("part.rs", '/* use crate::fs; */ const S: &str = "crate::fs \\" std::fs"; const C: char = \'"\';', None),
        ("part.rs", "#[cfg(test)]\nmod tests { fn f() { std::fs::read(crate::fs::X); } }", None),
        ("part.rs", "#[cfg(test)]\nmod tests {}\nuse crate::fs;", "part may not use fs"),
        ("name/tests.rs", "use crate::fs;", None),
    ],
)
def test_a_rust_dependency_is_judged_by_its_layer(engine: Path, file: str, line: str, refused: str | None) -> None:
    path = engine / ENGINE / file
    path.parent.mkdir(parents=True, exist_ok=True)
    before = path.read_text() if path.exists() else DOC
    path.write_text(f"{before}{line}\n")

    code, output = run_check("check_layers.py", engine)

    if refused is None:
        assert (code, output) == (0, "")
    else:
        assert code == 1
        assert len(output.splitlines()) == 1
        assert f"{os.path.normpath(f'{ENGINE}/{file}')}:" in output
        assert refused in output


def test_a_fault_is_reported_at_its_line(engine: Path) -> None:
    (engine / ENGINE / "part.rs").write_text(f"{DOC}\n/* two\nlines */\nuse crate::fs;\n")
    assert run_check("check_layers.py", engine)[1].startswith(f"{ENGINE}/part.rs:5: ")


def test_a_module_without_its_doc_is_refused(engine: Path) -> None:
    (engine / ENGINE / "part.rs").write_text("pub struct Name;\n")
    code, output = run_check("check_layers.py", engine)
    assert code == 1
    assert f"{ENGINE}/part.rs:1: does not begin with a module doc" in output


@pytest.mark.parametrize(
    ("file", "text", "refused"),
    [
        ("_api.py", "from shoal.cli import main", "may not import shoal.cli.main: the library does not know"),
        ("_api.py", "def f():\n    from shoal import cli", "may not import shoal.cli: "),
        ("_api.py", "import shoal_bench.cli", "may not import shoal_bench.cli: the lab is a package of its own"),
        ("cli/copy.py", "from shoal_bench import run", "may not import shoal_bench.run: "),
        ("_api.py", "import rich.table", "may not import rich.table: only the command line draws"),
        (
            "_api.py",
            "try:\n    import numpy\nexcept ImportError:\n    pass",
            "may not import numpy: an optional package",
        ),
        ("_api.py", "class A:\n    import numpy", "may not import numpy: "),
        ("_api.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import numpy", None),
        ("_shoal.pyi", "import numpy", None),
        ("torch.py", "import torch", None),
    ],
)
def test_a_python_import_is_judged_by_its_layer(engine: Path, file: str, text: str, refused: str | None) -> None:
    (engine / "python/shoal" / file).write_text(text + "\n")
    code, output = run_check("check_layers.py", engine)
    assert code == (0 if refused is None else 1)
    assert f"python/shoal/{file}:" in output if refused else output == ""
    assert (refused or "") in output


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("from shoal import copy, __version__", None),
        (
            "from shoal._options import parse_size",
            "may not import shoal._options.parse_size: the lab uses what every user",
        ),
        ("def f():\n    from shoal.cli import _exit", "may not import shoal.cli._exit: "),
    ],
)
def test_the_lab_may_import_what_is_public(engine: Path, text: str, refused: str | None) -> None:
    write(engine, {"bench/python/shoal_bench/run.py": text + "\n"})
    code, output = run_check("check_layers.py", engine)
    assert (code, refused or "") == (0 if refused is None else 1, refused if refused and refused in output else "")


def test_a_name_that_says_nothing_is_refused(engine: Path) -> None:
    (engine / "python/shoal/utils.py").write_text("")
    code, output = run_check("check_layers.py", engine)
    assert code == 1
    assert "python/shoal/utils.py: utils says nothing" in output


@pytest.mark.parametrize(
    ("lines", "code", "said"),
    [
        (500, 0, ""),
        (501, 0, "notice: long.rs: 501 lines"),
        (800, 0, "notice: "),
        (801, 1, "long.rs: 801 lines, the limit"),
    ],
)
def test_a_file_is_judged_by_its_length(tmp_path: Path, lines: int, code: int, said: str) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    write(
        tmp_path,
        {"long.rs": "//\n" * lines, "Cargo.lock": "#\n" * 900, ".gitignore": "made.rs\n", "made.rs": "\n" * 900},
    )
    (tmp_path / "data").write_bytes(b"\xff\n" * 900)
    found, output = run_check("check_sizes.py", tmp_path)
    assert found == code
    assert output.startswith(said)
    assert len(output.splitlines()) == (1 if said else 0)


@pytest.mark.parametrize(
    ("licence", "allowed"),
    [
        ("MIT", True),
        ("MIT/Apache-2.0", True),
        ("GPL-3.0-only OR MIT", True),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", True),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("GPL-3.0-only", False),
        ("MIT AND GPL-3.0-only", False),
        ("MIT OR Apache-2.0 AND GPL-3.0-only", True),
        ("(MIT OR Apache-2.0) AND GPL-3.0-only", False),
        ("MIT WITH strange-exception", False),
        ("(MIT", False),
        ("MIT MIT", False),
        ("", False),
        (None, False),
    ],
)
def test_a_licence_is_judged_as_an_expression(tmp_path: Path, licence: str | None, allowed: bool) -> None:
    packages = [
        {"id": "used", "name": "used", "version": "1.2.3", "license": licence},
        {"id": "unused", "name": "unused", "version": "1.0.0", "license": "GPL-3.0-only"},
    ]
    metadata = tmp_path / "metadata.json"
    metadata.write_text(json.dumps({"packages": packages, "resolve": {"nodes": [{"id": "used"}]}}))
    code, output = run_check("check_licences.py", metadata)
    assert code == (0 if allowed else 1)
    assert ("used 1.2.3: " in output) is not allowed
    assert "unused" not in output


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("README.md", "The server\nretries. Nobody is there.\n", 'README.md:2: "Nobody": say name the thing'),
        ("README.md", "A run that was stopped goes\non.\n", 'README.md:1: "goes on": say continue, resume'),
        ("docs/a.md", f"One.\n\n- {'word ' * 31}\n", "docs/a.md:3: a sentence of 31 words, at most 30"),
        ("docs/a.md", f"{'word ' * 30}\n- {'word ' * 30}\n\n    {'word ' * 31}\n\n| {'word ' * 31} |\n", ""),
        ("docs/a.md", f"```\n{'word ' * 31}\n```\n`{'word ' * 31}` is one.\n", ""),
        ("changelog.d/a.md", f"{'word ' * 31}\n", ""),
        ("python/shoal/a.py", "# An entry that cannot be had.\n", 'a.py:1: "be had"'),
        ("python/shoal/a.py", "# There is no file, and x is None.\n", ""),
        (f"{ENGINE}/a.rs", '// who\nlet c = \'"\'; // who\nfail("a file \\\n    who fails");\n', 'a.rs:3: "who"'),
        (f"{ENGINE}/a.rs", '/* who */ let a = r#"a " b"#; // who\n#[cfg(test)] mod tests { "who" }\n', ""),
    ],
)
def test_words_are_judged_where_a_reader_meets_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, said: str
) -> None:
    write(tmp_path, {name: text})
    monkeypatch.chdir(tmp_path)
    code, output = run_check("check_words.py")
    assert code == bool(said)
    assert said in output
    assert len(output.splitlines()) == code
