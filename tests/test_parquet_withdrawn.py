"""`parquet:DIR` and answers that turn out to be too long when their rows are written: no wrong row stays."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

from servers.fault_server import Exchange, Fault, FaultServer
from servers.fixtures import MakeServer, fault_server
from waiting import wait_until

if TYPE_CHECKING:
    from conftest import Command

__all__ = ["fault_server"]

COUNT = 120


def objects(count: int = COUNT) -> dict[str, bytes]:
    some = {f"f{number:04}": b"object %04d " % number * (number % 9 + 1) for number in range(count)}
    return some | {"f0027": b"large " * 50_000}


def late(surplus: bytes = b"") -> Fault:
    """The right body under a length that is one too small, the last byte later; or the right one and a surplus."""

    async def fault(exchange: Exchange) -> None:
        body = exchange.body + surplus
        said = len(exchange.body) - (not surplus)
        await exchange.send(exchange.head(200, {"Content-Length": str(said)}) + body[:said])
        await exchange.pause(0.01)
        await exchange.send(body[said:])

    return fault


async def slow(exchange: Exchange) -> None:
    """Right, but so late that all surpluses are there before, and what was fetched before is committed."""
    await exchange.pause(1)
    await exchange.healthy()


def rows(directory: Path) -> list[tuple[str, bytes]]:
    with duckdb.connect() as connection:
        return connection.sql(f"select name, data from '{directory}/*.parquet' order by name").fetchall()


def source(server: FaultServer, kind: str, directory: Path) -> list[str]:
    if kind == "service":
        return [server.url]
    urls = directory / "urls.txt"
    urls.write_text("".join(f"{name}\t{server.url}/get/{name}\n" for name in server.objects))
    return ["--urls", str(urls)]


def assert_rows_are(shoal: Command, out: Path, wanted: Mapping[str, bytes]) -> None:
    assert rows(out) == sorted(wanted.items())
    verified = shoal.run("verify", f"parquet:{out}")
    assert verified.returncode == 0, verified.stdout
    assert list((out / ".shoal" / "tmp").iterdir()) == []


@pytest.mark.parametrize("again", [[], ["--retry-failed"]], ids=["again", "retry-failed"])
@pytest.mark.parametrize("surplus", [b"", b"\r\n"], ids=["truncated", "crlf"])
@pytest.mark.parametrize("kind", ["service", "urls"])
def test_a_row_of_an_answer_that_was_too_long_is_removed_and_the_next_run_adds_the_right_one(
    shoal: Command, fault_server: MakeServer, tmp_path: Path, kind: str, surplus: bytes, again: list[str]
) -> None:
    server = fault_server(objects())
    server.echo = False
    wrong = {name for name in server.objects if name.endswith("7")}
    for name in wrong:
        server.on_object(name, late(surplus))
    server.on_object(f"f{COUNT - 1:04}", slow)
    server.start()
    out = tmp_path / "out"
    command = ["copy", *source(server, kind, tmp_path), f"parquet:{out}", "--workers", "2", "--json"]

    done = shoal.run(*command)

    assert done.returncode == 1, done.stderr
    report = shoal.last_json(done)
    assert report["failed"] > 0
    found = dict(rows(out))
    assert len(found) == len(rows(out)) == report["written"] == COUNT - report["failed"]
    assert {name: data for name, data in found.items() if server.objects[name] != data} == {}
    assert shoal.run("verify", f"parquet:{out}").returncode == 0

    server.heal()
    done = shoal.run(*command, *again)
    assert done.returncode == 0, done.stderr
    assert not [note for note in shoal.last_json(done)["notes"] if "another job" in note]
    assert_rows_are(shoal, out, server.objects)


def test_of_many_pages_no_name_is_there_twice_and_all_bytes_are_right(
    shoal: Command, fault_server: MakeServer, tmp_path: Path
) -> None:
    server = fault_server(objects(400))
    server.echo, server.page_size = False, 7
    for name in ["f0007", "f0150", "f0300"]:
        server.on_object(name, late())

    async def missing(exchange: Exchange) -> None:
        await exchange.answer(404, b"")

    server.on_object("f0200", missing)
    for number in range(398, 400):
        server.on_object(f"f0{number}", slow)
    server.start()
    out = tmp_path / "out"
    command = ["copy", server.url, f"parquet:{out}", "--workers", "2", "--shard-size", "10kB"]
    assert shoal.run(*command).returncode == 1
    server.heal()
    done = shoal.run(*command)
    assert done.returncode == 0, done.stderr
    assert_rows_are(shoal, out, server.objects)


def test_after_ctrl_c_the_next_run_removes_the_row(shoal: Command, fault_server: MakeServer, tmp_path: Path) -> None:
    server = fault_server(objects())
    server.echo = False
    server.on_object("f0007", late())
    last = "f0119"

    async def hold(exchange: Exchange) -> None:
        await exchange.hold()

    server.on_object(last, hold)
    server.start()
    out = tmp_path / "out"
    command = ["copy", server.url, f"parquet:{out}", "--workers", "2", "--timeout", "60"]
    running = shoal.start(*command)
    wait_until(lambda: len(server.requests) >= COUNT and server.asked(last))
    running.send_signal(signal.SIGINT)
    running.communicate()
    assert running.returncode == 130

    server.heal()
    assert shoal.run(*command).returncode in (0, 1)  # 1: what was withdrawn is retried by the run after it
    done = shoal.run(*command)
    assert done.returncode == 0, done.stderr
    assert_rows_are(shoal, out, server.objects)


def test_a_dataset_with_a_row_that_could_not_be_removed_is_incomplete(shoal: Command, fault_server: MakeServer) -> None:
    server = fault_server({"right": b"12345678", "wrong": b"abcdefgh", "slow": b"slow"})
    server.echo = False
    server.on_object("wrong", late(b"junk"))
    server.on_object("slow", slow)
    server.start()
    urls = shoal.directory / "urls.txt"
    urls.write_text(
        "".join(f"{name}\t{server.url}/get/{of}\n" for name, of in [("a", "right"), ("a", "wrong"), ("b", "slow")])
    )
    done = shoal.run("copy", "--urls", urls, "parquet:out", "--workers", "2")
    assert done.returncode == 1
    assert "could not be removed yet" in shoal.run("read", "parquet:out", "--checksum", "sha256").stderr
    for command in (["read", "parquet:out", "--checksum", "sha256"], ["copy", "parquet:out", "files"]):
        assert shoal.run(*command).returncode == 1, command


def test_files_beside_a_dataset_leave_what_its_journal_knows(shoal: Command) -> None:
    source = shoal.directory / "src"
    source.mkdir()
    for number in range(50):
        (source / f"f{number}").write_text(f"{number}")
    assert shoal.run("copy", "src", "parquet:out").returncode == 0
    other = shoal.directory / "other"
    other.mkdir()
    (other / "beside").write_text("beside")
    assert shoal.run("copy", "other", "out").returncode == 0
    (dataset,) = (shoal.directory / "out").glob("*.parquet")
    dataset.unlink()
    done = shoal.run("verify", "parquet:out")
    assert done.returncode != 0
    assert dataset.name in done.stdout + done.stderr
