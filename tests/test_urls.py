"""Lists of URLs as a source: what is fetched, what fails and why, what a journal has of it, and what resumes."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import random
import sqlite3
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

import shoal as package
from servers.url_server import Answer, UrlServer
from trees import tree
from url_copies import copy, write

if TYPE_CHECKING:
    from conftest import Command


def journal(out: Path) -> bytes:
    return b"".join(path.read_bytes() for path in (out / ".shoal").rglob("*") if path.is_file())


def reasons(out: Path) -> dict[str, str]:
    return {failure.name: failure.reason for failure in package.status(out).runs[-1].failures}


def test_objects_have_the_names_of_their_paths_or_those_of_the_list(server: UrlServer, tmp_path: Path) -> None:
    list_file = write(
        tmp_path / "list.txt",
        f"{server.url}/a%20b/c.jpg?size=2#part",
        "",
        "# a comment",
        f"my/name.txt\t{server.url}/d\r",
    )
    report = copy(package.urls(list_file), tmp_path / "out")
    assert (report.ok, report.written) == (True, 2)
    assert tree(tmp_path / "out") == {"a b/c.jpg": b"/a%20b/c.jpg?size=2", "my/name.txt": b"/d"}


def test_a_template_makes_names(server: UrlServer, tmp_path: Path) -> None:
    list_file = write(tmp_path / "list", f"{server.url}/x/", f"{server.url}/y?1")
    for template, wanted in (
        ("{index:04d}.bin", {"0000.bin", "0001.bin"}),
        ("{host}/{index}", {f"{server.authority}/0", f"{server.authority}/1"}),
    ):
        out = tmp_path / f"out {len(template)}"
        assert copy(package.urls(list_file, name=template), out).written == 2
        assert set(tree(out)) == wanted
    copy(package.urls(list_file, name="{hash}"), tmp_path / "hash")
    assert all(len(name) == 32 for name in tree(tmp_path / "hash"))
    with pytest.raises(package.ConfigError, match="is not a placeholder"):
        copy(package.urls(list_file, name="{ext}"), tmp_path / "no")


def test_hostile_lines_are_failures_with_their_number_and_stop_nothing(server: UrlServer, tmp_path: Path) -> None:
    list_file = write(
        tmp_path / "list",
        "file:///etc/passwd",
        "/etc/passwd",
        b"http://h/\0x",
        b"x" * (1 << 20),
        b"http://h/\xff",
        f"{server.url}/%2e%2e/%2e%2e/escaped",
        f"../escaped\t{server.url}/x",
        f"/escaped\t{server.url}/x",
        f".shoal/journal.db\t{server.url}/x",
        f"{server.url}/",
        "http://h:99999/x",
        "ftp://user:hunter2@h/x",
        f"{server.url}/good",
    )
    report = copy(package.urls(list_file), tmp_path / "out")
    assert (report.written, report.failed) == (1, 12)
    assert tree(tmp_path / "out") == {"good": b"/good"}
    failures = [failure.reason for failure in package.status(tmp_path / "out").runs[-1].failures]
    assert sorted(int(reason.split("list:")[1].split('"')[0]) for reason in failures) == list(range(1, 13))
    assert not (tmp_path / "escaped").exists()
    assert b"hunter2" not in journal(tmp_path / "out")
    assert server.paths == ["/good"]


def test_two_objects_of_one_name_are_a_failure(server: UrlServer, tmp_path: Path) -> None:
    list_file = write(tmp_path / "list", f"{server.url}/x?1", f"{server.url}/x?2")
    report = copy(package.urls(list_file), tmp_path / "out")
    assert (report.written, report.failed) == (1, 1)
    assert package.status(tmp_path / "out").runs[-1].failures[0].kind == "name-conflict"


def test_neither_credentials_nor_queries_are_in_the_journal_or_in_messages(
    server: UrlServer, tmp_path: Path, shoal: Command
) -> None:
    server.answers["/bad?token=hunter3"] = Answer(status=500)
    list_file = write(
        tmp_path / "list",
        f"http://user:hunter2@{server.authority}/good?token=hunter3",
        f"http://user:hunter2@{server.authority}/bad?token=hunter3",
        f"http://user:hunter2@{server.authority}/../?token=hunter3",
        f"{server.url}/plain",
    )
    result = shoal.run(
        "copy", "--urls", list_file, tmp_path / "out", "-v", "--max-retries", "0", "--header", "X: hunter4"
    )
    assert result.returncode == 1
    status = shoal.run("status", tmp_path / "out", "--json").stdout
    assert "500" in status
    everything = result.stdout + result.stderr + status + journal(tmp_path / "out").decode("latin-1")
    assert not [secret for secret in ("hunter2", "hunter3", "hunter4", "dXNlcj") if secret in everything]
    sent = {path: headers.get("Authorization") for path, headers in server.requests}
    assert sent == {
        "/good?token=hunter3": "Basic dXNlcjpodW50ZXIy",
        "/bad?token=hunter3": "Basic dXNlcjpodW50ZXIy",
        "/plain": None,
    }


def test_a_retry_reads_the_line_again_and_refuses_a_changed_one(server: UrlServer, tmp_path: Path) -> None:
    for path in ("/1", "/2"):
        server.answers[path] = Answer(status=404)
    list_file, out = write(tmp_path / "list", f"{server.url}/1", f"{server.url}/2", f"{server.url}/3"), tmp_path / "out"
    assert copy(package.urls(list_file), out).failed == 2
    server.answers.clear()
    write(list_file, f"{server.url}/1", f"{server.url}/X", f"{server.url}/3")
    report = copy(package.urls(list_file), out)
    assert (report.written, report.failed) == (1, 1)
    assert "the list has changed" in reasons(out)["2"]
    assert "/X" not in server.paths
    write(list_file, f"{server.url}/1", f"{server.url}/2", f"{server.url}/3")
    assert copy(package.urls(list_file), out).written == 1
    assert set(tree(out)) == {"1", "2", "3"}


def test_46_a_whole_answer_that_says_it_is_a_part_is_a_failure(server: UrlServer, tmp_path: Path) -> None:
    for path, part in (("/part", "bytes 0-9/20"), ("/rest", "bytes 10-19/20"), ("/all", "bytes 0-9/10")):
        server.answers[path] = Answer(b"0123456789", headers={"Content-Range": part})
    list_file = write(tmp_path / "list", *(f"{server.url}/{name}" for name in ("part", "rest", "all")))
    report = copy(package.urls(list_file, max_retries=1), tmp_path / "out")
    assert {failure.name: failure.kind for failure in report.failures} == {"part": "protocol", "rest": "protocol"}
    assert tree(tmp_path / "out") == {"all": b"0123456789"}


def test_an_object_that_is_named_like_a_line_is_retried_like_any_other(server: UrlServer, tmp_path: Path) -> None:
    server.answers["/x"] = Answer(status=404)
    list_file, out = write(tmp_path / "list", f"line 1\t{server.url}/x", f"{server.url}/"), tmp_path / "out"
    assert copy(package.urls(list_file), out).failed == 2
    without_a_name = reasons(out)["line 2"]
    assert "does not end with a name" in without_a_name
    server.answers.clear()
    report = copy(package.urls(list_file), out)
    assert (report.written, report.failed) == (1, 1)
    assert tree(out) == {"line 1": b"/x"}
    assert reasons(out) == {"line 2": without_a_name}


class StopError(Exception):
    """Raised by `progress`."""


def frontier(out: Path) -> int:
    """How many partitions from the first on are committed without a gap, as the journal has it."""
    (database,) = (out / ".shoal").rglob("journal.db")
    with contextlib.closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
        return int(connection.execute("SELECT max(frontier) FROM progress").fetchone()[0])


def interrupted(source: Any, out: Path, after: int, **options: Any) -> None:
    """Stops a run that has committed `after` objects and the first page of the list, in which one may be late."""

    def progress(progress: package.Progress) -> None:
        if progress.committed >= after and frontier(out) > 0:
            raise StopError

    with pytest.raises(StopError):
        package.copy(source, out, progress=progress, on_error="record", **options)


def test_an_interrupted_run_resumes_without_fetching_again_what_is_committed(tmp_path: Path) -> None:
    with package.serve(synthetic="60000:20") as service:
        lines = [f"{service.url}/get/object-{number:09}" for number in range(60_000)]
        list_file, out = write(tmp_path / "list", *lines), tmp_path / "out"
        source = package.urls(list_file)
        interrupted(source, out, 20_000)
        before = service.stats.requests
        write(list_file, *lines, f"late\t{service.url}/get/object-000000001")
        report = copy(source, out)
        assert report.ok
        assert report.total.written == 60_001
        assert len(tree(out)) == 60_001
        assert service.stats.requests - before <= 60_001 - 20_000
        assert not any("changed" in note for note in report.notes)


def test_a_list_that_has_changed_before_that_point_is_read_from_its_start(tmp_path: Path) -> None:
    with package.serve(synthetic="60000:20") as service:
        lines = [f"{service.url}/get/object-{number:09}" for number in range(60_000)]
        list_file, out = write(tmp_path / "list", *lines), tmp_path / "out"
        source = package.urls(list_file)
        interrupted(source, out, 20_000)
        write(list_file, f"new\t{service.url}/get/object-000000001", *lines)
        report = copy(source, out)
        assert report.ok
        assert any("the listing has changed" in note for note in report.notes)
        assert len(tree(out)) == 60_001


def test_a_redirect_may_leave_the_host_but_headers_and_passwords_stay(server: UrlServer, tmp_path: Path) -> None:
    with UrlServer("127.0.0.2") as other:
        server.answers["/x"] = Answer(status=302, headers={"Location": f"{other.url}/y"})
        server.answers["/f"] = Answer(status=302, headers={"Location": "file:///etc/passwd"})
        list_file = write(tmp_path / "list", f"http://u:p@{server.authority}/x", f"{server.url}/f")
        report = copy(package.urls(list_file, headers={"X-Key": "secret"}), tmp_path / "out")
        assert (report.written, report.failed) == (1, 1)
        assert tree(tmp_path / "out") == {"x": b"/y"}
        assert server.requests[0][1]["X-Key"] == "secret"
        assert not {"X-Key", "Authorization"} & set(other.requests[0][1])
        assert 'scheme "file:"' in reasons(tmp_path / "out")["f"]


def test_no_host_gets_more_connections_than_per_host(tmp_path: Path) -> None:
    with UrlServer(delay=0.01) as one, UrlServer("127.0.0.2", delay=0.01) as other:
        lines = [f"{number}/{at}\t{host.url}/{number}" for number in range(150) for at, host in enumerate((one, other))]
        for per_host in (1, 3):
            one.busy_peak = other.busy_peak = 0
            source = package.urls(write(tmp_path / "list", *lines), per_host=per_host)
            report = copy(source, tmp_path / f"out{per_host}", workers=32)
            assert report.written == 300
            assert (one.busy_peak, other.busy_peak) == (per_host, per_host)


def test_several_users_of_one_host_share_its_connections(tmp_path: Path) -> None:
    """More users than connections: those of one must not keep the others from ever having one."""
    with UrlServer(delay=0.002) as server:
        users = random.Random(0).choices(range(5), k=400)
        lines = [f"{number}\thttp://u{user}:x@{server.authority}/{number}" for number, user in enumerate(users)]
        list_file = write(tmp_path / "list", *lines)
        for per_host, pipeline in ((1, 5), (2, 2), (6, 2)):
            source = package.urls(list_file, per_host=per_host, pipeline=pipeline)
            assert copy(source, tmp_path / f"out{per_host}", workers=32).written == 400
            assert server.busy_peak <= per_host


def test_requests_per_second_are_limited_for_each_host(server: UrlServer, tmp_path: Path) -> None:
    lines = [f"{server.url}/{number}" for number in range(41)]
    began = time.monotonic()
    assert copy(package.urls(write(tmp_path / "list", *lines), limit_requests=20), tmp_path / "out").written == 41
    assert time.monotonic() - began >= 40 / 20 - 0.1


def test_a_pause_that_one_host_asks_for_is_its_own(server: UrlServer, tmp_path: Path) -> None:
    with UrlServer("127.0.0.2") as other:
        server.answers["/0"] = Answer(status=503, headers={"Retry-After": "2"})
        lines = [
            f"{number}/{at}\t{host.url}/{number}" for number in range(60) for at, host in enumerate((server, other))
        ]
        times: list[float] = []

        def progress(progress: package.Progress) -> None:
            if not times and len(other.requests) == 60:
                times.append(time.monotonic() - began)
                server.answers.clear()

        began = time.monotonic()
        report = copy(package.urls(write(tmp_path / "list", *lines)), tmp_path / "out", progress=progress)
        assert report.written == 120
        assert times[0] < 1.5 < 2 <= time.monotonic() - began


def test_a_list_comes_from_standard_input_once(server: UrlServer, tmp_path: Path, shoal: Command) -> None:
    list_file = write(tmp_path / "list", *(f"{server.url}/{number}" for number in range(300)), "ftp://h/x")
    server.answers["/7"] = Answer(status=500)
    threading.Timer(0.5, server.answers.clear).start()
    with list_file.open() as stdin:
        result = shoal.start("copy", "--urls", "-", "out", "-v", stdin=stdin)
        _, messages = result.communicate(timeout=60)
    assert result.returncode == 1
    assert "cannot be resumed" in messages
    assert len(tree(tmp_path / "out")) == 300


def test_urls_come_from_an_iterable(server: UrlServer, tmp_path: Path) -> None:
    source = package.urls((f"n{number}", f"{server.url}/{number}") for number in range(250))
    assert "hunter" not in repr(source)
    assert "(250 URLs)" in repr(source)
    assert copy(source, tmp_path / "out").written == 250
    again = package.urls([(f"n{number}", f"{server.url}/{number}") for number in range(250)])
    assert copy(again, tmp_path / "out").completed_before
    assert {bytes(found) for found in package.read(package.urls([f"{server.url}/a", f"{server.url}/b"]))} == {
        b"/a",
        b"/b",
    }
    for wrong in ([7], [f"{server.url}/\n"], [("a", "b", "c")], [""], b"x", 7, server.url):
        with pytest.raises(package.ConfigError):
            package.urls(wrong)  # type: ignore[arg-type]


def test_the_order_of_the_list_can_be_kept(tmp_path: Path) -> None:
    with UrlServer() as one, UrlServer("127.0.0.2", delay=0.02) as other:
        urls = [f"{number:02}\t{(one, other)[number % 2].url}/{number}" for number in range(60)]
        source = package.urls(write(tmp_path / "list", *urls))
        assert [found.name for found in package.read(source, order="source")] == [
            f"{number:02}" for number in range(60)
        ]


def test_csv_json_lines_and_parquet_have_fields(server: UrlServer, tmp_path: Path) -> None:
    rows = [(f"{server.url}/{number}", f"n,{number}.jpg") for number in range(150)]
    (tmp_path / "list.csv").write_text("id,file,link\n" + "".join(f'7,"{name}",{url}\n' for url, name in rows) + "8\n")
    (tmp_path / "list.tsv").write_text("link\tfile\n" + "".join(f"{url}\t{name}\n" for url, name in rows))
    lines = [json.dumps({"caption": "ü" * 50, "link": url, "file": name}) for url, name in rows]
    write(tmp_path / "list.jsonl", *lines, "{}", "not JSON")
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = arrow.table({"file": [name for _, name in rows] + ["x"], "link": [url for url, _ in rows] + [None]})
    parquet.write_table(table, tmp_path / "list.parquet", row_group_size=40)
    wanted = {name: url.removeprefix(server.url).encode() for url, name in rows}
    server.answers["/77"] = Answer(status=404)
    for ending, bad in ((".csv", 1), (".tsv", 0), (".jsonl", 2), (".parquet", 1)):
        source, out = (
            package.urls(tmp_path / f"list{ending}", url_field="link", name_field="file"),
            tmp_path / f"out{ending}",
        )
        report = copy(source, out)
        assert (report.written, report.failed) == (149, bad + 1), ending
        server.answers.clear()
        assert copy(source, out, resume="failed").written == 1
        assert tree(out) == wanted, ending
        server.answers["/77"] = Answer(status=404)
        with pytest.raises(package.ConfigError, match="`url_field`") as error:
            copy(
                package.urls(tmp_path / f"list{ending}", url_field="adress"), tmp_path / "no"
            ) if ending != ".jsonl" else copy(package.urls(tmp_path / "list.csv", url_field="adress"), tmp_path / "no")
        assert '"link"' in str(error.value)


def test_an_empty_name_is_no_name_in_any_format(server: UrlServer, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    write(tmp_path / "list.csv", "name,url", f",{server.url}/x")
    write(tmp_path / "list.jsonl", json.dumps({"name": "", "url": f"{server.url}/x"}))
    parquet.write_table(arrow.table({"name": [""], "url": [f"{server.url}/x"]}), tmp_path / "list.parquet")
    for ending in ("csv", "jsonl", "parquet"):
        copy(package.urls(tmp_path / f"list.{ending}", name_field="name"), tmp_path / ending)
        assert tree(tmp_path / ending) == {"x": b"/x"}, ending


def test_urls_of_one_name_are_rows_or_failures_also_after_a_retry(server: UrlServer, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    source = package.urls(write(tmp_path / "list", f"x\t{server.url}/1", f"x\t{server.url}/2", f"y\t{server.url}/3"))
    server.answers["/2"] = server.answers["/3"] = Answer(status=404)
    assert package.copy(source, f"parquet:{tmp_path}/out", on_error="record").written == 1
    server.answers.clear()
    report = package.copy(source, f"parquet:{tmp_path}/out", on_error="record")
    assert (report.written, report.failed, report.failures[0].kind) == (1, 1, "name-conflict")
    rows = [row for file in (tmp_path / "out").glob("*.parquet") for row in parquet.read_table(file).to_pylist()]
    assert sorted((row["name"], row["data"]) for row in rows) == [("x", b"/1"), ("y", b"/3")]


def test_an_update_is_conditional_where_each_name_is_one_url(server: UrlServer, tmp_path: Path) -> None:
    old = {"Last-Modified": "Sat, 01 Jan 2022 00:00:00 GMT", "Date": "Sat, 01 Jan 2022 01:00:00 GMT"}
    for path in ("/1", "/2"):
        server.answers[path] = Answer(path.encode(), headers=old)
    list_file = write(tmp_path / "list", f"{server.url}/1", f"{server.url}/2")
    source = package.urls(list_file, name="{hash}")
    assert copy(source, tmp_path / "out", keep_times=True).written == 2
    assert copy(package.urls(list_file), tmp_path / "paths", keep_times=True).written == 2
    server.requests.clear()
    report = copy(package.urls(list_file), tmp_path / "paths", keep_times=True, resume="update")
    assert (report.written, report.skipped) == (0, 2)
    assert not [headers for _, headers in server.requests if "If-Modified-Since" in headers], "two may have one path"
    server.requests.clear()
    server.answers["/1"] = Answer(status=304)
    server.answers["/2"] = Answer(b"new", headers=old | {"Last-Modified": "Sat, 01 Jan 2022 00:10:00 GMT"})
    report = copy(source, tmp_path / "out", keep_times=True, resume="update")
    assert (report.written, report.skipped) == (1, 1)
    assert set(tree(tmp_path / "out").values()) == {b"/1", b"new"}
    assert {headers.get("If-Modified-Since") for _, headers in server.requests} == {old["Last-Modified"]}


@pytest.mark.parametrize("pipeline", ["auto", "off", 8])
def test_the_entity_tag_and_the_time_of_a_url_are_columns(
    server: UrlServer, tmp_path: Path, pipeline: Literal["auto", "off"] | int
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="PyArrow is not installed")
    old = {"Last-Modified": "Sat, 01 Jan 2022 00:00:00 GMT", "Date": "Sat, 01 Jan 2022 01:00:00 GMT"}
    tags = {f"/{n:02}": f'"tag-{n}"' for n in range(90)} | {"/90": None, "/91": 'W/"weak"', "/92": None}
    sent = {path: {"ETag": tag} for path, tag in tags.items() if tag} | {"/92": {"ETag": "x" * 257}}
    for path in tags:
        size = 100_000 if path == "/07" else 10  # a large one comes in pieces
        server.answers[path] = Answer(path.encode() * size, headers=old | sent.get(path, {}))
    list_file = write(tmp_path / "list", *(server.url + path for path in tags))
    copy(package.urls(list_file, pipeline=pipeline), f"parquet:{tmp_path}/out")
    rows = parquet.read_table(tmp_path / "out/objects-000000.parquet").to_pylist()
    assert {f"/{row['name']}": row["e_tag"] for row in rows} == tags
    assert {row["last_modified"] for row in rows} == {dt.datetime(2022, 1, 1, tzinfo=dt.UTC)}


def test_the_command_names_what_failed_and_what_a_list_is(server: UrlServer, tmp_path: Path, shoal: Command) -> None:
    list_file = write(tmp_path / "list", f"{server.url}/1", "nonsense")
    result = shoal.run("copy", "--urls", list_file, tmp_path / "out")
    assert result.returncode == 1
    assert 'in "list:2": not a URL' in result.stderr
    assert "--urls" in shoal.run("copy", list_file, tmp_path / "itself", "-v").stderr
    assert shoal.run("copy", "--urls", tmp_path, tmp_path / "no").returncode == 2
    assert shoal.run("copy", "--urls", tmp_path / "missing", tmp_path / "no").returncode == 2
    sums = shoal.run("read", "--urls", write(tmp_path / "one", f"{server.url}/1"), "--checksum", "sha256").stdout
    assert sums.endswith("  1\n")


def test_an_empty_list_is_no_error_and_a_large_object_streams(server: UrlServer, tmp_path: Path) -> None:
    assert copy(package.urls(write(tmp_path / "empty", "# nothing")), tmp_path / "nothing").ok
    large = os.urandom(5 << 20)
    server.answers["/large"] = Answer(large)
    copy(package.urls([f"{server.url}/large"]), tmp_path / "out")
    assert tree(tmp_path / "out") == {"large": large}


def test_an_object_is_given_up_when_its_retry_timeout_ends_however_many_retries_are_left(tmp_path: Path) -> None:
    with UrlServer(status=503) as server:
        list_file = tmp_path / "list"
        list_file.write_text(f"{server.url}/a\n")
        source = package.urls(list_file, retry_timeout=3, max_retries=1_000)
        report = package.copy(source, tmp_path / "out", on_error="record")
    assert report.failed == 1
    assert 0 < len(server.requests) < 100
    assert report.seconds >= 3
