"""Directories and links that the system refuses to look at: each is a failure with its cause, and never a gap."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import shoal as package
from faults.tracing import injected, traced

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


def failed(destination: Path) -> dict[str, str]:
    """Names of failures, with their reasons."""
    (run,) = package.status(destination).runs
    return {one.name: one.reason for one in run.failures}


@pytest.mark.parametrize(("error", "why"), [("EIO", "input/output error"), ("ESTALE", "no longer exists")])
def test_a_link_to_what_cannot_be_looked_at_is_a_failure_with_its_cause(
    shoal: Command, source: Path, error: str, why: str
) -> None:
    log = shoal.directory / "log"
    # strace tells calls by their directory. Those that ask for permissions fail, too; a glob needs no other.
    under = traced(log, f"newfstatat:error={error}", source)
    copied = shoal.under(*under).run("copy", "--follow-links", source / "**", "out")
    assert injected(log) > 0
    assert copied.returncode == 1, copied.stderr
    assert "1 directory or link could not be read" in copied.stderr
    assert list(failed(shoal.directory / "out")) == ["link"]
    assert why in failed(shoal.directory / "out")["link"].lower()
    assert (shoal.directory / "out/d/y").read_text() == "y"

    again = shoal.run("copy", "--follow-links", "--update", source / "**", "out")
    assert again.returncode == 0, again.stderr
    assert (shoal.directory / "out/link/f").read_text() == "f"


def test_a_directory_that_is_removed_while_it_is_read_is_a_failure(shoal: Command, source: Path) -> None:
    log = shoal.directory / "log"
    under = traced(log, "getdents64:error=ENOENT", source / "d")
    copied = shoal.under(*under).run("copy", source, "out")
    assert injected(log) > 0
    assert copied.returncode == 1, copied.stderr
    assert list(failed(shoal.directory / "out")) == ["d"]
    assert (shoal.directory / "out/x").read_text() == "x"
