"""`logging.getLogger("shoal")` receives what a run has to say, where the program has set up logging."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

import shoal as package

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Interpreter


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "tree").mkdir()
    for name in "abc":
        (tmp_path / "tree" / name).write_text(name)
    (tmp_path / "out" / "b").mkdir(parents=True)  # in the way of one
    return tmp_path


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    return [(record.levelno, record.getMessage()) for record in caplog.records if record.name == "shoal"]


def test_a_run_says_its_begin_each_failure_and_its_end(tree: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with pytest.raises(package.ObjectsFailedError):
        package.copy(tree / "tree", tree / "out")
    lines = said(caplog)
    assert lines[0] == (logging.INFO, f"copying {tree}/tree to {tree}/out")
    assert [text.partition(":")[0] for level, text in lines if level == logging.WARNING] == ['"b"']
    assert any(
        text.startswith("complete: 2 objects (2 bytes) done in ") for level, text in lines if level == logging.INFO
    )
    assert lines[-1] == (logging.ERROR, next(text for level, text in lines if level == logging.ERROR))
    assert "1 of 3 objects failed" in lines[-1][1]


def test_reading_says_the_same_at_the_end_of_the_loop(tree: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    reader = package.read(tree / "tree")
    assert [text for _, text in said(caplog)] == [f"reading {tree}/tree"]
    assert len(list(reader)) == 3
    assert said(caplog)[-1][1].startswith("complete: 3 objects (3 bytes)")
    caplog.clear()
    with package.read(tree / "tree") as reader:
        next(reader)
    assert said(caplog)[-1][1].startswith("not complete: ")


def test_of_a_list_in_memory_the_number_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    listed = package.urls([f"http://127.0.0.1:1/{name}" for name in "abc"], max_retries=0)
    package.copy(listed, "null:", on_error="record")
    package.read(listed)
    assert [text for _, text in said(caplog) if "URLs" in text] == ["copying (3 URLs) to null:", "reading (3 URLs)"]


def test_no_secret_is_logged(tree: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(package.RunError):
        package.copy(package.list_get("http://127.0.0.1:1", headers={"A": "s3cret"}, retry_timeout=0.1), tree / "out")
    assert said(caplog)
    assert "s3cret" not in caplog.text


def test_without_logging_set_up_nothing_is_printed_and_logging_is_not_imported(
    tree: Path, interpreter: Interpreter
) -> None:
    script = f"""
        import sys, shoal
        before = "logging" in sys.modules
        shoal.copy({str(tree / "tree")!r}, {str(tree / "out")!r}, on_error="record")
        print(before, "logging" in sys.modules)
        import logging
        shoal.copy({str(tree / "tree")!r}, {str(tree / "out")!r}, on_error="record")
        print(logging.getLogger("shoal").handlers)
    """
    done = interpreter.run(script)
    assert done.stdout == "False False\n[]\n"
    assert done.stderr == "", "Python's handler of last resort is not used"
