"""File systems that refuse to change permissions: a note where it changes what arrives, a failure for a bad disk."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from faults.tracing import injected, traced

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Command


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A small file, which is created with its permissions, and one in pieces, which gets them at its end."""
    root = tmp_path / "source"
    root.mkdir()
    (root / "large").write_bytes(bytes(3 << 20))
    (root / "small").write_text("small")
    return root


def test_46_permissions_that_cannot_be_changed_are_said(shoal: Command, source: Path) -> None:
    log = shoal.directory / "log"
    copied = shoal.under(*traced(log, "fchmod:error=EPERM")).run("copy", source, "out")
    assert injected(log) > 0
    assert copied.returncode == 0, copied.stderr
    assert "note: the destination's file system refuses to change permissions" in copied.stderr
    assert stat.S_IMODE((shoal.directory / "out/large").stat().st_mode) == 0o600

    plain = shoal.run("copy", source, "plain")
    assert "refuses to change permissions" not in plain.stderr
    assert stat.S_IMODE((shoal.directory / "plain/large").stat().st_mode) == 0o644


def test_46_a_disk_error_while_permissions_are_set_is_a_failure(shoal: Command, source: Path) -> None:
    log = shoal.directory / "log"
    copied = shoal.under(*traced(log, "fchmod:error=EIO")).run("copy", source, "out")
    assert injected(log) > 0
    assert copied.returncode != 0, copied.stderr
    assert "cannot set the permissions of" in copied.stderr
    assert not (shoal.directory / "out/large").exists()
