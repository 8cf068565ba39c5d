"""Directories and links that the system refuses to look at: each is a failure with its cause, and never a gap."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import shoal as package
from faults.tracing import injected, traced
from trees import tree

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Command


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A tree with a link to a directory, which is outside."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/f").write_text("f")
    root = tmp_path / "source"
    (root / "d").mkdir(parents=True)
    (root / "x").write_text("x")
    (root / "d/y").write_text("y")
    (root / "link").symlink_to("../outside")
    return root


def failed(destination: Path) -> dict[str, tuple[str, str]]:
    """Names of failures, with their kinds and reasons."""
    (run,) = package.status(destination).runs
    return {one.name: (one.kind, one.reason.lower()) for one in run.failures}


@pytest.mark.parametrize(("error", "why"), [("EIO", "input/output error"), ("ESTALE", "no longer exists")])
def test_a_link_to_what_cannot_be_looked_at_is_a_failure_with_its_cause(
    shoal: Command, source: Path, error: str, why: str
) -> None:
    log = shoal.directory / "log"
    # strace tells calls by their directory. Those that ask for permissions fail, too; a glob needs no other.
    under = traced(log, f"newfstatat:error={error}", source)
    copied = shoal.under(*under).run("copy", "--links", "follow", source / "**", "out")
    assert injected(log) > 0
    assert copied.returncode == 1, copied.stderr
    assert "1 directory or link could not be read" in copied.stderr
    ((name, (_, reason)),) = failed(shoal.directory / "out").items()
    assert name == "link"
    assert why in reason
    assert (shoal.directory / "out/d/y").read_text() == "y"

    again = shoal.run("copy", "--links", "follow", "--update", source / "**", "out")
    assert again.returncode == 0, again.stderr
    assert (shoal.directory / "out/link/f").read_text() == "f"


def test_a_followed_link_to_nothing_is_a_failure_until_it_leads_somewhere(shoal: Command, source: Path) -> None:
    (source / "dangling").symlink_to("later")
    (source / "loop").symlink_to("loop")
    command = ("copy", "--links", "follow", source, "out")
    copied = shoal.run(*command)
    assert copied.returncode == 1, copied.stderr
    assert {name: kind for name, (kind, _) in failed(shoal.directory / "out").items()} == {
        "dangling": "vanished",
        "loop": "vanished",
    }
    assert tree(shoal.directory / "out") == {"d/y": b"y", "link/f": b"f", "x": b"x"}

    ignored = shoal.run(*command, "--ignore-vanished")
    assert ignored.returncode == 0, ignored.stderr
    assert failed(shoal.directory / "out") == {}

    (source / "later").write_text("now")
    (source / "loop").unlink()
    again = shoal.run(*command, "--update")
    assert again.returncode == 0, again.stderr
    assert (shoal.directory / "out/dangling").read_text() == "now"


def test_a_directory_that_is_removed_while_it_is_read_is_a_failure(shoal: Command, source: Path) -> None:
    log = shoal.directory / "log"
    under = traced(log, "getdents64:error=ENOENT", source / "d")
    copied = shoal.under(*under).run("copy", source, "out")
    assert injected(log) > 0
    assert copied.returncode == 1, copied.stderr
    assert list(failed(shoal.directory / "out")) == ["d"]
    assert (shoal.directory / "out/x").read_text() == "x"
