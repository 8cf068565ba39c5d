"""A strategy of the user's own in the lab: what it is given, how it is checked, and what is said of a wrong one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from conftest import Command, Here

# One for each job, with a place for what goes wrong.
RIGHT = {
    "copy": """
import urllib.request
from pathlib import Path

def mine(base_url, names, directory):
    for name in names:
        with urllib.request.urlopen(f"{base_url}/get/{name}") as answer:
            Path(directory, name).write_bytes(answer.read())
    HARM
""",
    "save": """
from pathlib import Path

def mine(make, ids, directory):
    for number in ids:
        Path(directory, f"data-{number:04d}.csv").write_text(make(number))
    HARM
""",
    "unzip": """
import zipfile
from pathlib import Path

def mine(archives, directory):
    for path in archives:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(directory)
    HARM
""",
    "read": """
from pathlib import Path

def mine(paths):
    for path in paths:
        data = Path(path).read_bytes()
        HARM
        yield path, data
""",
}
COUNTS = {"copy": ("--count", "20"), "save": ("--count", "5"), "read": ("--count", "20", "--size", "1KB")}
COUNTS["unzip"] = ("--count", "30", "--case", "tiny")
OTHERS = {"copy": "shoal", "save": "sequential", "read": "sequential", "unzip": "serial"}


def bench(
    lab: Command, job: str, source: str, *more: str, spec: str = "mine.py:mine"
) -> subprocess.CompletedProcess[str]:
    (lab.directory / "mine.py").write_text(source)
    arguments = ("bench", job, "--strategy", spec, "--trials", "1", *COUNTS[job], *more)
    return lab.run(*arguments, "--results", lab.directory / "results.json")


def row(lab: Command, key: str = "mine:mine") -> dict[str, object]:
    rows = {one["key"]: one for one in json.loads((lab.directory / "results.json").read_text())["rows"]}
    found = rows[key]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("job", RIGHT)
def test_a_right_one_is_a_row_beside_the_others(shoal: Command, job: str) -> None:
    done = bench(shoal, job, RIGHT[job].replace("HARM", "pass"), "--only", OTHERS[job])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "yours: mine" in done.stdout
    assert len(row(shoal)["trials"]) == len(row(shoal, OTHERS[job])["trials"]) == 1  # type: ignore[arg-type]
    assert row(shoal)["kind"] == "strategy"


FILES = "files = sorted(path for path in Path(directory).rglob('*') if path.is_file())"
DROPPED = f"{FILES}; files[3].unlink()"
SPOILT = f"{FILES}; data = files[3].read_bytes(); files[3].write_bytes(data[:-1] + bytes([data[-1] ^ 1]))"


@pytest.mark.parametrize("harm", [DROPPED, SPOILT], ids=["drops a file", "writes a wrong byte"])
@pytest.mark.parametrize("job", ["copy", "save", "unzip"])
def test_a_wrong_one_is_caught_and_marked(lab: Here, job: str, harm: str) -> None:
    done = bench(lab, job, RIGHT[job].replace("HARM", harm), "--only", OTHERS[job])
    assert done.returncode == 1, done.stdout + done.stderr
    said = " ".join(done.stdout.split())
    assert "failed: yours: mine: it did not do the job: " in said
    assert ("missing" if harm == DROPPED else "has the wrong bytes") in said
    assert row(lab)["trials"] == []
    assert row(lab, OTHERS[job])["trials"], "the other row stands"


@pytest.mark.parametrize(
    "harm",
    ["if path.endswith('7'): continue", "data = data[:-1] + b'?'", "data = data[:-1]", "path = path + 'x'"],
    ids=["drops a file", "a wrong byte", "a short one", "another name"],
)
def test_a_wrong_reader_is_caught(lab: Here, harm: str) -> None:
    done = bench(lab, "read", RIGHT["read"].replace("HARM", harm), "--only", "sequential")
    assert done.returncode == 1, done.stdout
    assert "failed: yours: mine: it did not do the job: " in " ".join(done.stdout.split())


def test_a_reader_may_count_and_the_table_says_that_nothing_is_proven(lab: Here) -> None:
    source = "def mine(paths):\n    return len(paths), sum(len(open(path, 'rb').read()) for path in paths)\n"
    done = bench(lab, "read", source, "--only", "sequential")
    assert done.returncode == 0, done.stdout
    assert "nothing is proven" in done.stdout
    done = bench(lab, "read", source.replace("return len(paths)", "return len(paths) - 1"), "--only", "sequential")
    assert done.returncode == 1
    assert "it read 19 objects of 20" in " ".join(done.stdout.split())


def test_a_coroutine_is_run_to_its_end(lab: Here) -> None:
    source = RIGHT["save"].replace("def mine", "async def mine").replace("HARM", "return len(ids), 1")
    done = bench(lab, "save", source, "--only", "sequential")
    assert done.returncode == 0, done.stdout + done.stderr
    assert row(lab)["failed"] is None


def test_an_unpacker_without_a_directory_says_how_much_it_was(lab: Here) -> None:
    source = """
import zipfile

def mine(archives, directory):
    objects = size = 0
    for path in archives:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                objects, size = objects + 1, size + len(archive.read(name))
    return objects, size - LESS
"""
    done = bench(lab, "unzip", source.replace("LESS", "0"), "--only", "serial", "--into", "null")
    assert done.returncode == 0, done.stdout + done.stderr
    done = bench(lab, "unzip", source.replace("LESS", "1"), "--only", "serial", "--into", "null")
    assert not (lab.directory / "__pycache__").exists(), "old bytecode would run in place of what was written since"
    assert done.returncode == 1
    assert "it unpacked" in done.stdout


def test_several_take_part_and_processes_find_their_functions(lab: Here) -> None:
    source = """
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

def one(directory, number):
    from make_table import text
    Path(directory, f"data-{number:04d}.csv").write_text(text(number))

def mine(make, ids, directory):
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        list(pool.map(partial(one, directory), ids))

def other(make, ids, directory):
    for number in ids:
        Path(directory, f"data-{number:04d}.csv").write_text(make(number))
"""
    table = "'\\n'.join(','.join(str(number + line + column) for column in range(10)) for line in range(5000))"
    (lab.directory / "make_table.py").write_text(f"def text(number):\n    return {table}\n")
    done = bench(lab, "save", source, "--only", "sequential", "--strategy", "mine:other")
    assert done.returncode == 0, done.stdout + done.stderr
    assert row(lab, "mine:mine")["failed"] is row(lab, "mine:other")["failed"] is None


WRONG = {
    "raises": ("raise ValueError('no luck')", "it ended with code 1: ValueError: no luck"),
    "returns nonsense": ("return 'done'", "it returned 'done', not (objects, bytes) or None"),
    "returns a float": ("return 5, 1.5", "it returned (5, 1.5), not (objects, bytes) or None"),
    "ends its process": ("import os; os._exit(0)", "its process ended before the function returned"),
    "exits": ("raise SystemExit(0)", "its process ended before the function returned"),
}


@pytest.mark.parametrize("what", WRONG)
def test_one_that_does_not_return_well_is_marked(lab: Here, what: str) -> None:
    harm, message = WRONG[what]
    done = bench(lab, "save", RIGHT["save"].replace("HARM", harm), "--only", "sequential")
    assert done.returncode == 1, done.stdout + done.stderr
    assert message in " ".join(done.stdout.split())


UNUSABLE = {
    "no file": ("other.py:mine", "", "there is no file 'other.py'"),
    "no module": ("nothing.there:mine", "", "cannot import 'nothing.there': ModuleNotFoundError"),
    "no function": ("mine.py:yours", "def mine(): pass", "there is no 'yours' in 'mine.py'"),
    "not a function": ("mine.py:mine", "mine = 5", "cannot be called: it is of type int"),
    "a wrong signature": ("mine.py:mine", "def mine(directory): pass", "it takes (directory), and is given (make, ids"),
    "an error while it is imported": ("mine.py:mine", "1 / 0", "cannot import 'mine.py': ZeroDivisionError"),
    "a syntax error": ("mine.py:mine", "def mine(:", "cannot import 'mine.py': SyntaxError"),
    "no colon": ("mine", "", "not MODULE:FUNCTION or FILE.py:FUNCTION: 'mine'"),
    "no name": ("mine.py:", "", "not MODULE:FUNCTION or FILE.py:FUNCTION: 'mine.py:'"),
}


@pytest.mark.parametrize("what", UNUSABLE)
def test_one_that_cannot_be_used_is_refused_before_anything_runs(lab: Here, what: str) -> None:
    spec, source, message = UNUSABLE[what]
    done = bench(lab, "save", source, spec=spec)
    assert done.returncode == 2, done.stdout + done.stderr
    said = " ".join(done.stderr.split())
    assert message in said
    assert "def mine(make, ids, directory)" in said, "the hint says what it must take"
    assert "warming up" not in said


def test_a_module_of_the_user_may_be_called_as_one_of_the_lab(lab: Here) -> None:
    (lab.directory / "table.py").write_text(RIGHT["save"].replace("HARM", "pass"))
    done = bench(lab, "save", "", "--only", "sequential", spec="table:mine")
    assert done.returncode == 0, done.stdout + done.stderr
    assert row(lab, "table:mine")["failed"] is None


def test_one_name_twice_is_refused(lab: Here) -> None:
    source = RIGHT["save"].replace("HARM", "pass")
    done = bench(lab, "save", source, "--strategy", "mine:mine")
    assert done.returncode == 2
    assert "two strategies are called 'mine:mine'" in done.stderr


def test_into_nowhere_is_for_those_that_can_be_checked_there(lab: Here) -> None:
    done = bench(lab, "copy", RIGHT["copy"].replace("HARM", "pass"), "--into", "null")
    assert done.returncode == 2
    assert "writes files, so that they can be compared" in done.stderr


def test_it_is_in_the_list(lab: Here, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(RIGHT["save"].replace("HARM", "pass"))
    done = lab.run("bench", "save", "--strategy", "mine:mine", "--list")
    assert "mine:mine" in done.stdout


def test_it_takes_no_number_of_workers_but_sizes(lab: Here) -> None:
    source = RIGHT["read"].replace("HARM", "pass")
    (lab.directory / "mine.py").write_text(source)
    done = lab.run("bench", "read", "--strategy", "mine:mine", "--workers", "1,2")
    assert done.returncode == 2
    assert "takes no number of workers" in done.stderr
    done = lab.run(
        *("bench", "read", "--strategy", "mine:mine", "--sizes", "1KB,2KB", "--count", "20", "--trials", "1"),
        *("--only", "sequential"),
    )
    assert done.returncode == 0, done.stderr
    assert "yours: mine (mine:mine)" in done.stdout
