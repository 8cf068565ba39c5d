"""What a run of the tests leaves out: by the machine (`skips.py`), and by the date (`tenth.py`)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from skips import unexpected
from tenth import in_tenth

TESTS = """
import pytest

@pytest.mark.slow
def test_short(): pass

@pytest.mark.slow(minutes=5)
def test_long(): pass

def test_skipped(): pytest.skip("{reason}")
"""


def write(directory: Path, reason: str = "") -> None:
    """Writes three tests, of which one is skipped."""
    (directory / "test_three.py").write_text(TESTS.format(reason=reason))


GROUP = """
import os, pathlib, pytest

@pytest.fixture(scope="module")
def cluster():
    with pathlib.Path("workers").open("a") as file:
        file.write(f"{os.getpid()}\\n")

@pytest.mark.xdist_group("one")
@pytest.mark.parametrize("number", range(8))
def test_in_a_group(cluster, number): pass
"""


def run(directory: Path, *options: str, **extra: str) -> tuple[int, str]:
    """Runs the tests of a directory with the two plugins; returns the exit code and the output."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SHOAL_", "PYTEST_"))}
    plugins = ("-p", "skips", "-p", "tenth", "-p", "xdist", "-p", "no:cacheprovider", "-W", "ignore")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, *options, "-rs", "-vv", "test_three.py"],
        cwd=directory,
        env=environment | {"PYTHONPATH": str(Path(__file__).parent), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} | extra,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["alone", "workers"])
def test_a_skip_that_the_machine_does_not_explain_fails_the_run(tmp_path: Path, options: tuple[str, ...]) -> None:
    write(tmp_path, "needs a day off")
    code, said = run(tmp_path, *options, SHOAL_KNOWN_SKIPS="1")
    assert (code, "SHOAL_KNOWN_SKIPS: needs a day off" in said) == (1, True), said
    assert run(tmp_path, *options)[0] == 0
    write(tmp_path, "not a format of Python's tarfile")
    assert run(tmp_path, *options, SHOAL_KNOWN_SKIPS="1")[0] == 0


def test_what_a_machine_lacks_explains_a_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    reasons = ["needs strace (scripts/install_test_tools.sh)", "no tmpfs can be mounted here: why", "another"]
    monkeypatch.setattr("skips.may_mount", lambda: True)
    monkeypatch.setattr("shutil.which", lambda program, path=None: program)
    assert unexpected(reasons) == reasons
    monkeypatch.setattr("shutil.which", lambda program, path=None: None)
    assert unexpected(reasons) == reasons[1:]
    monkeypatch.setattr("skips.may_mount", lambda: False)
    assert unexpected(reasons) == ["another"]


def test_a_group_of_tests_is_kept_to_one_worker(tmp_path: Path) -> None:
    (tmp_path / "test_three.py").write_text(GROUP)
    code, said = run(tmp_path, "-n", "2", "--dist", "loadgroup")
    assert code == 0, said
    assert len((tmp_path / "workers").read_text().split()) == 1, "as mounts need, and the tests of a cluster"


def test_a_test_that_would_not_be_over_in_time_is_named_and_does_not_begin(tmp_path: Path) -> None:
    write(tmp_path)
    code, said = run(tmp_path, SHOAL_TENTH_UNTIL=str(time.time() + 120))
    assert code == 0
    assert "1 passed, 2 skipped" in said
    assert "not reached in time: test_three.py::test_long" in said


def test_each_test_is_in_one_of_ten_tenths(tmp_path: Path) -> None:
    name = "test_three.py::test_short"
    [tenth] = [tenth for tenth in range(10) if in_tenth(name, tenth)]
    write(tmp_path)
    assert "test_short PASSED" in run(tmp_path, SHOAL_TENTH=str(tenth))[1]
    assert "test_short" not in run(tmp_path, SHOAL_TENTH=str((tenth + 1) % 10))[1]
