"""No space left, told by a tracer in place of the disk: also where no small file system can be mounted."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from conftest import Command, Service


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize("error", ["ENOSPC", "EDQUOT"])
def test_no_space_stops_the_run_with_one_message_and_the_same_command_goes_on(
    shoal: Command, service: Service, tmp_path: Path, error: str
) -> None:
    server = service(synthetic="300:1000")
    plain = shoal.argv
    # Only writes to these files fail: what threads write to wake each other must not.
    files = [str((tmp_path / "out").resolve() / f"object-{number:09}") for number in range(100, 300)]
    inject = (
        "-e",
        "trace=write",
        "-e",
        f"inject=write:error={error}",
        *(word for file in files for word in ("-P", file)),
    )
    shoal.argv = ("strace", "-f", "-qq", "-o", "/dev/null", *inject, *plain)

    full = shoal.run("copy", server.url, "out", "--json", "--workers", "2")

    assert full.returncode == 3, full.stderr
    assert shoal.last_json(full)["kind"] == "destination-full"
    assert full.stderr.count("error:") == 1, full.stderr
    assert all(path.stat().st_size == 1000 for path in (tmp_path / "out").glob("object-*")), "what is there is whole"

    shoal.argv = plain
    again = shoal.run("copy", server.url, "out", "--json")
    assert again.returncode == 0, again.stderr
    assert shoal.last_json(again)["total"]["written"] == 300
    found = list((tmp_path / "out").glob("object-*"))
    assert (len(found), {path.stat().st_size for path in found}) == (300, {1000})
