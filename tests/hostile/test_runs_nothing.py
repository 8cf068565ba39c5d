"""Nothing that is received runs: no program is started and nothing is unpickled; rows S23 and S26.

`shoal.generate` is another matter: it sends the caller's own function to processes that it starts. So is the lab, which
runs the programs that it compares.
"""

from __future__ import annotations

import os
import pickle
import re
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from conftest import Command, Interpreter
from hostile.oracle import Shoal, assert_arrived
from servers.fixtures import MakeServer


class Bomb:
    """Unpickled, it leaves a file."""

    def __reduce__(self) -> tuple[object, tuple[str, ...]]:
        return os.mkdir, ("exploded",)


def baits() -> dict[str, bytes]:
    """Names that a shell would run, and bytes that a careless reader would."""
    names = ["$(touch exploded)", "`touch exploded`", "; touch exploded", "| touch exploded", "-exec touch exploded"]
    names += ["a.pkl", "a.npy", "a.pt", "a.py", "sitecustomize.py", "shoal.py", "a.sh", "a.zip.pkl"]
    return dict.fromkeys(names, pickle.dumps(Bomb()))


def lay_baits(directory: Path) -> None:
    """Makes a directory `tree` of them, and an archive `x.zip`."""
    tree = directory / "tree"
    tree.mkdir()
    with zipfile.ZipFile(directory / "x.zip", "w") as archive:
        for name, data in baits().items():
            (tree / name).write_bytes(data)
            archive.writestr(name, data)


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_no_program_is_started_whatever_a_service_sends(shoal_command: Shoal, fault_server: MakeServer) -> None:
    log = shoal_command.directory / "calls"
    shoal_command.within = ["strace", "-f", "-qq", "-e", "trace=execve,execveat,fork,vfork", "-o", str(log)]
    objects = baits()
    outcome = shoal_command.copy(fault_server(objects).start())
    assert_arrived(outcome, objects)
    calls = [line for line in log.read_text().splitlines() if re.search(r"\b(execve|execveat|fork|vfork)\(", line)]
    assert len(calls) == 1, calls
    assert sys.executable in calls[0], "the command itself"
    assert not (shoal_command.directory / "exploded").exists()


@pytest.mark.parametrize("command", ["copy", "read", "unzip", "records", "status"])
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_no_program_is_started_by_any_command(shoal: Command, tmp_path: Path, command: str) -> None:
    lay_baits(tmp_path)
    (tmp_path / "table").write_bytes(bytes(64))
    if command == "status":
        assert shoal.run("copy", "tree", "out").returncode == 0
    arguments = {
        "copy": ["tree", "out"],
        "read": ["tree", "--checksum", "crc32"],
        "unzip": ["x.zip", "-d", "out"],
        "records": ["table", "--format", "<QQ", "--count"],
        "status": ["out"],
    }[command]
    shoal.argv = ("strace", "-f", "-qq", "-e", "trace=execve,execveat,fork,vfork", "-o", "calls", *shoal.argv)

    done = shoal.run(command, *arguments)

    assert done.returncode == 0, done.stderr
    started = [
        line for line in (tmp_path / "calls").read_text().splitlines() if "+++" not in line and "---" not in line
    ]
    assert len(started) == 1, started
    assert not (tmp_path / "exploded").exists()


def test_nothing_that_is_read_or_written_is_unpickled_or_run(interpreter: Interpreter, tmp_path: Path) -> None:
    lay_baits(tmp_path)
    (tmp_path / "table").write_bytes(pickle.dumps(Bomb()).ljust(96, b"\0"))
    # The auditing of the interpreter itself: it says when something is unpickled or started.
    script = """
        import sys
        seen = []
        forbidden = ("pickle.find_class", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork")
        sys.addaudithook(lambda event, _: event in forbidden and seen.append(event))
        import shoal
        shoal.copy("tree", "out")
        assert len(list(shoal.read("tree"))) == 13
        assert sum(len(batch) for batch in shoal.read("tree").batches()) == 13
        shoal.unzip("x.zip", "unzipped")
        shoal.save({"a.pkl": b"1"}.items(), "saved")
        assert len(list(shoal.Records("table", "<QQ"))) == 6
        shoal.status("out")
        assert not seen, seen
        import pickle
        pickle.loads(pickle.dumps(shoal.status))
        assert seen == ["pickle.find_class"], "the hook works"
    """
    done = interpreter.run(script)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (tmp_path / "exploded").exists()
