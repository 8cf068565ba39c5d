"""`shoal records`: what it prints, what is for programs, and what it refuses."""

from __future__ import annotations

import json
import signal
import struct
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conftest import PATIENCE

if TYPE_CHECKING:
    from conftest import Command

LAYOUT = ("--format", "<QII", "--names", "ts,id,len")


@pytest.fixture
def index(tmp_path: Path) -> Path:
    path = tmp_path / "index.bin"
    path.write_bytes(b"".join(struct.pack("<QII", n * 1000, n % 3, n) for n in range(100)))
    return path


def test_the_first_records_are_a_table_and_the_rest_is_counted(shoal: Command, index: Path) -> None:
    done = shoal.run("records", index, *LAYOUT)
    assert done.returncode == 0
    assert done.stdout.splitlines()[:3] == ["  ts  id  len", "   0   0    0", "1000   1    1"]
    assert len(done.stdout.splitlines()) == 11
    assert done.stderr == "100 records of 16 bytes, 1.6 kB\n"


def test_where_columns_and_head_choose(shoal: Command, index: Path) -> None:
    done = shoal.run(
        "records", index, *LAYOUT, "--where", "id == 1 and len > 90", "--columns", "len, ts", "--head", "2"
    )
    assert done.stdout.splitlines() == ["len     ts", " 91  91000", " 94  94000"]
    everything = shoal.run("records", index, *LAYOUT, "--head", "all")
    assert len(everything.stdout.splitlines()) == 101
    nothing = shoal.run("records", index, *LAYOUT, "--where", "len > 1000")
    assert nothing.stdout == "ts  id  len\n"


def test_counts_and_sums_are_a_line_each(shoal: Command, index: Path) -> None:
    done = shoal.run(
        "records", index, *LAYOUT, "--count", "--sum", "len", "--max", "ts", "--mean", "len", "--min", "id"
    )
    assert (done.returncode, done.stderr) == (0, "")
    wanted = "count\t100\nsum(len)\t4950\nmin(id)\t0\nmax(ts)\t99000\nmean(len)\t49.5\n"
    assert done.stdout == wanted
    done = shoal.run("records", index, *LAYOUT, "--count", "--min", "len", "--where", "len > 100")
    assert done.stdout == "count\t0\nmin(len)\t-\n"


def test_groups_are_a_line_each_behind_their_names(shoal: Command, index: Path) -> None:
    done = shoal.run("records", index, *LAYOUT, "--sum", "len", "--count", "--by", "id", "--head", "2")
    assert done.stdout == "id\tcount\tsum(len)\n0\t34\t1683\n1\t33\t1617\n"
    assert done.stderr == "3 groups\n"


def test_json_is_a_line_for_each_and_a_last_one(shoal: Command, index: Path) -> None:
    def lines(*arguments: str) -> list[dict[str, object]]:
        return [json.loads(line) for line in shoal.run("records", index, *arguments, "--json").stdout.splitlines()]

    size = {"records": 100, "record_size": 16, "bytes": 1600, "files": 1}
    ok = {"type": "report", "ok": True}
    first = {"type": "record", "values": {"ts": 0, "id": 0, "len": 0}}
    assert lines(*LAYOUT, "--head", "1") == [first, ok | size]
    assert lines(*LAYOUT, "--count") == [ok | {"values": {"count": 100}}]
    assert lines(*LAYOUT, "--count", "--by", "id")[-2:] == [
        {"type": "group", "values": {"id": 2, "count": 33}},
        ok | {"groups": 3},
    ]
    assert lines()[0] == {"type": "bytes", "record_size": 16, "offset": 0, "hex": "00" * 16}
    assert lines()[-1] == ok | {"sizes": [size]}
    named = lines("--format", "<QII", "--names", "type,ok,values", "--head", "1")
    assert named[0] == {"type": "record", "values": {"type": 0, "ok": 0, "values": 0}}, "no field hides another"
    values = struct.pack("<dd2s", float("nan"), float("inf"), b"a\n")
    index.write_bytes(values)
    assert lines("--format", "<dd2s")[0] == {
        "type": "record",
        "values": {"f0": None, "f1": "inf", "f2": "610a"},
    }


def test_without_a_format_the_bytes_are_shown_and_nothing_is_guessed(shoal: Command, index: Path) -> None:
    done = shoal.run("records", index)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "records of 16 bytes: 100"
    assert lines[2].split() == [
        "16",
        *["e8", "03", "00", "00", "00", "00", "00", "00", "01", "00", "00", "00", "01", "00", "00", "00"],
        "................",
    ]
    assert len(lines) == 9
    assert "--format" in done.stderr
    several = shoal.run("records", index, "--size", "24", "--size", "1", "--offset", "3")
    assert [line for line in several.stdout.splitlines() if line.startswith("records")] == [
        "records of 24 bytes: 66",
        "records of 1 byte: 1,597",
    ]


def test_many_files_are_one_table(shoal: Command, index: Path) -> None:
    (index.parent / "index.2").write_bytes(index.read_bytes())
    for files in (["index.*"], ["index.bin", "index.2"]):
        done = shoal.run("records", *files, *LAYOUT, "--count")
        assert done.stdout == "count\t200\n"
    assert "in 2 files" in shoal.run("records", "index.*", *LAYOUT).stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["missing.bin", *LAYOUT], 3, "missing.bin"),
        (["index.bin", "--format", "<Z"], 2, "not a letter"),
        (["index.bin", *LAYOUT, "--where", "size > 1"], 2, "size"),
        (["index.bin", *LAYOUT, "--where", "len >"], 2, "column 6"),
        (["index.bin", "--format", "<QIH"], 3, "torn|more"),
        (["index.bin", *LAYOUT, "--sum", "nothing"], 2, "nothing"),
        (["index.bin", *LAYOUT, "--by", "id"], 2, "--count"),
        (["index.bin", *LAYOUT, "--count", "--columns", "id"], 2, "--columns"),
        (["index.bin", *LAYOUT, "--size", "16"], 2, "--size"),
        (["index.bin", "--count"], 2, "--format"),
        (["index.bin", "--size", "0"], 2, "--size"),
        (["index.bin", *LAYOUT, "--head", "some"], 2, "neither a number"),
        (["nothing-*.bin", *LAYOUT], 2, "no file matches"),
        ([], 2, "FILE"),
    ],
)
def test_what_is_wrong_is_said_with_its_exit_code(
    shoal: Command, index: Path, arguments: list[str], code: int, said: str
) -> None:
    for as_json in (False, True):
        done = shoal.run("records", *arguments, *(["--json"] if as_json else []))
        assert done.returncode == code, done.stderr
        assert any(part in done.stderr for part in said.split("|"))
        assert "Traceback" not in done.stderr
        if as_json:
            assert shoal.last_json(done)["type"] == "error"


def test_a_torn_end_is_dropped_on_request(shoal: Command, index: Path) -> None:
    with index.open("ab") as file:
        file.write(b"half")
    assert shoal.run("records", index, *LAYOUT, "--count").returncode == 3
    assert shoal.run("records", index, *LAYOUT, "--count", "--tail", "drop").stdout == "count\t100\n"


def test_names_and_bytes_from_strangers_cannot_act_on_a_terminal(shoal: Command, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"\x1b[2J\x07\x9b\n\r")
    for arguments in (["f", "--format", "8s"], ["f", "--size", "8"], ["f", "--format", "8s", "--names", "a\x1b[2J"]):
        done = shoal.run("records", *arguments)
        assert (done.returncode, "\x1b" in done.stdout + done.stderr) == (0, False)


def test_ctrl_c_ends_it_with_code_130(shoal: Command, tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(256 << 30)
    process = shoal.start("records", "large", *LAYOUT, "--sum", "len", "--where", "ts > 5")
    # It is at work when it has read a gigabyte.
    while int(Path(f"/proc/{process.pid}/io").read_text().split()[1]) < 1 << 30:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
