"""A finished copy into `parquet:DIR` looks at its files before it says so again; no advice is refused."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

import shoal as package
from conftest import Command
from test_parquet import query

COUNT = 300
REFUSED = re.compile(r"--(update|restart|overwrite|durability)|(resume|overwrite|durability)=|`resume")


def made(directory: Path) -> Path:
    """Makes small files."""
    directory.mkdir()
    for number in range(COUNT):
        (directory / f"f{number}").write_bytes(f"{number}\n".encode() * 50)
    return directory


@pytest.mark.parametrize(
    ("how", "flags"),
    [
        ("cut", []),
        ("gone", []),
        ("gone", ["--retry-failed"]),
        ("cut", ["--journal", "j"]),
        ("gone", ["--journal", "j"]),
    ],
    ids=["cut", "gone", "gone-retry", "cut-elsewhere", "gone-elsewhere"],
)
def test_46_a_finished_copy_with_a_damaged_file_is_an_error_until_the_file_is_back(
    shoal: Command, how: str, flags: list[str]
) -> None:
    made(shoal.directory / "src")
    out = shoal.directory / "out"
    command = ("copy", "src", f"parquet:{out}")
    assert shoal.run(*command, *(flags if "--journal" in flags else [])).returncode == 0
    (file,) = out.glob("*.parquet")
    kept = file.read_bytes()
    if how == "cut":
        os.truncate(file, 1_000)
    else:
        shutil.rmtree(out) if "--journal" in flags else file.unlink()
    failed = shoal.run(*command, *flags, "--json")
    assert failed.returncode == 3, failed
    error = shoal.last_json(failed)
    assert error["kind"] == "destination-failed"
    why = "it has 1000 bytes, but was published with" if how == "cut" else "it was published, and is missing"
    assert f'"{file}": {why}' in error["message"]
    assert error["hint"] == "restore the file, or copy everything into a new directory"
    out.mkdir(exist_ok=True)
    file.write_bytes(kept)
    again = shoal.run(*command, *flags)
    assert again.returncode == 0, again.stderr
    assert query(out, "count(*), count(distinct name)") == (COUNT, COUNT)


def test_46_each_finished_part_looks_at_its_own_files(shoal: Command) -> None:
    made(shoal.directory / "src")
    command = ("copy", "src", "parquet:out")
    for part in ("0/2", "1/2"):
        assert shoal.run(*command, "--part", part).returncode == 0
    (file,) = (shoal.directory / "out").glob("part-1-*.parquet")
    file.unlink()
    done = {part: shoal.run(*command, "--part", part) for part in ("0/2", "1/2")}
    assert {part: run.returncode for part, run in done.items()} == {"0/2": 0, "1/2": 3}
    assert f'"{file}": it was published, and is missing' in done["1/2"].stderr
    assert shoal.run("verify", "parquet:out").returncode == 1


def test_46_a_finished_call_raises_if_a_file_is_gone(tmp_path: Path) -> None:
    items = [(f"{number}", b"x") for number in range(COUNT)]

    def save() -> package.Report:
        return package.save(items, f"parquet:{tmp_path}/out", source_id="numbers")

    save()
    assert save().completed_before
    (file,) = (tmp_path / "out").glob("*.parquet")
    file.unlink()
    with pytest.raises(package.RunError, match="it was published, and is missing") as failed:
        save()
    assert failed.value.hint == "restore the file, or copy everything into a new directory"


def test_46_no_message_advises_what_rows_cannot_do(shoal: Command, tmp_path: Path) -> None:
    made(tmp_path / "src")
    command = ("copy", "src", "parquet:out")
    assert shoal.run(*command).returncode == 0
    for flags, code, words in [
        ((), 0, "was not listed again (use a new directory)"),
        (("--include", "f1*"), 3, "hint: use the same options, or a new directory to continue with the new ones"),
    ]:
        done = shoal.run(*command, *flags)
        assert done.returncode == code, done
        assert words in done.stderr
        assert not REFUSED.search(done.stderr), done.stderr
    with pytest.raises(package.RunError, match="other options") as failed:
        package.copy(tmp_path / "src", f"parquet:{tmp_path}/out", include=["f1*"])
    assert not REFUSED.search(str(failed.value).splitlines()[-1])


def test_46_no_recorded_failure_advises_what_rows_cannot_do(shoal: Command, tmp_path: Path) -> None:
    served = made(tmp_path / "src")
    os.mkfifo(served / "pipe")
    (served / os.fsdecode(b"caf\xe9")).write_bytes(b"1")
    with package.serve(served) as server:
        done = shoal.run("copy", server.url, "parquet:out")
    assert done.returncode == 1, done
    assert "fix them there and list again with a new directory" in done.stderr
    status = shoal.run("status", "parquet:out", "--failures", "all").stdout
    assert "fix them there and list again with a new directory" in status
    assert not REFUSED.search(done.stderr + status)


def test_46_a_directory_that_is_not_utf8_is_not_taken_for_another(shoal: Command) -> None:
    made(shoal.directory / "src")
    for name in (b"caf\xe9", b"caf\xe8", "caf\ufffd".encode(), rb"caf\xe9"):
        out = os.fsdecode(name)
        done = shoal.run("copy", "src", f"parquet:{out}", "--journal", "j")
        assert done.returncode == 0, done.stderr
        assert "wrote 300 objects" in done.stderr, name
        assert len(list((shoal.directory / out).glob("*.parquet"))) == 1
        assert "nothing to do" in shoal.run("copy", "src", f"parquet:{out}", "--journal", "j").stderr
