"""No space left, told by a tracer in place of the disk: also where no small file system can be mounted."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from conftest import Command, Service
from faults.runs import committed
from trees import tree


def synthetic(number: int) -> bytes:
    return (f"object-{number:09}\n".encode() * 100)[:1000]


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
    found, wanted = tree(tmp_path / "out"), {f"object-{number:09}": synthetic(number) for number in range(300)}
    assert found.items() <= wanted.items(), "what is there is whole"
    assert len(found) < 300
    assert committed(tmp_path / "out") <= len(found)

    shoal.argv = plain
    again = shoal.run("copy", server.url, "out", "--json")
    assert again.returncode == 0, again.stderr
    assert shoal.last_json(again)["total"]["written"] == 300
    assert tree(tmp_path / "out") == wanted
