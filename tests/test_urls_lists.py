"""What a list has is fetched or is a failure: random odd lists, compared with what Python and PyArrow read.

It looks for rows that are missing from a run without a word. Not here: hosts with troubles, runs that are killed
(`test_urls_model.py`).
"""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import json
import os
import random
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import shoal as package
from servers.url_server import UrlServer
from trees import tree

if TYPE_CHECKING:
    from conftest import Command

FAST = 4
SEEDS = [*range(FAST), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(FAST, 20 * FAST))]
LISTS = 10  # of each seed

ENDS = ["\n", "\r\n", "\r"]
CELLS = ["a", '"b', 'c"', '"d"', 'e"f', '""', '"', '"""', 'g""h', '"i""j"', "", '"k"l', ' "', "x,y", "é", "#"]
TEXTS = ["", "a", "two\nlines", "three\r\n\rlines", '3" pipe', '"all"', "a, b", "see\nhttp://h/x\n", "\t", "é"]
BEGINS = ["", "#", " ", "é", "'", "\ufeff"]


@pytest.fixture(scope="module")
def server() -> Iterator[UrlServer]:
    with UrlServer() as server:
        yield server


Read = tuple[dict[str, str], dict[int, str]]


def read(source: package.Urls | Path, out: Path, **options: Any) -> Read:
    """The name of each path that was fetched; the reason of each line that failed."""
    source = package.urls(source, **options) if isinstance(source, Path) else source
    report = package.copy(source, out, on_error="record", workers=1)
    names = {content.decode(): name for name, content in tree(out).items()}
    assert report.written == len(names)
    failures = package.status(out).runs[-1].failures
    assert len(failures) == report.failed
    found = (re.match(r'in ".*:(\d+)": (.*)', failure.reason) for failure in failures)
    return names, {int(match[1]): match[2] for match in found if match}


class Rows:
    """A list of rows, of which each has a URL and a name that no other has."""

    def __init__(self, chance: random.Random, url: str) -> None:
        self.chance, self.url, self.count = chance, url, chance.randint(1, 40)
        self.end = chance.choice(ENDS)
        self.columns = ["url", *chance.sample(["name", "x", "y"], chance.randint(0, 3))]
        chance.shuffle(self.columns)
        self.options = {"name_field": "name"} if "name" in self.columns else {}
        self.separator = chance.choice([",", "\t"])

    def cell(self, column: str, row: int, others: list[str]) -> str:
        """What is in a column."""
        if column == "url":
            return f"{self.url}/{row}"
        return f"{self.chance.choice(BEGINS)}n{row}" if column == "name" else self.chance.choice(others)

    def write(self, path: Path, *, is_odd: bool) -> str:
        """Writes the list, as the module csv does, or its cells as they are; returns its text."""
        others = CELLS if is_odd else TEXTS
        rows = [[self.cell(column, row, others) for column in self.columns] for row in range(self.count)]
        rows.insert(0, self.columns)
        if is_odd:
            lines = [self.separator.join(cells) for cells in rows]
            text = "".join(line + self.chance.choice([self.end, self.end, *ENDS]) for line in lines)
        else:
            quoting: Any = self.chance.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
            if self.end == "\r":  # the module then puts no quotes around LF
                quoting = csv.QUOTE_ALL
            file = io.StringIO()
            csv.writer(file, delimiter=self.separator, lineterminator=self.end, quoting=quoting).writerows(rows)
            text = file.getvalue()
        path.write_text(text, newline="")
        return text

    def rows(self, text: str) -> dict[str, tuple[str, int, int]]:
        """As the module csv reads it: the name of each path, and in which lines its row is."""
        lines = re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$", text)
        reader = csv.reader(lines, delimiter=self.separator)
        assert [name.strip() for name in next(reader)] == self.columns
        found, first = {}, reader.line_num + 1
        for row in reader:
            cells = dict(zip(self.columns, row, strict=False))
            found[cells.get("url", "").removeprefix(self.url)] = (cells.get("name", ""), first, reader.line_num)
            first = reader.line_num + 1
        return found


def path_of(directory: Path, separator: str, number: int) -> Path:
    return directory / f"list{number}.{'csv' if separator == ',' else 'tsv'}"


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_are_those_that_the_module_csv_reads(seed: int, server: UrlServer, tmp_path: Path) -> None:
    chance = random.Random(seed)
    for number in range(LISTS):
        rows = Rows(chance, server.url)
        path = path_of(tmp_path, rows.separator, number)
        wanted = rows.rows(rows.write(path, is_odd=False))
        found, failed = read(path, tmp_path / f"out{number}", **rows.options)
        assert not failed, path.read_bytes()
        assert found == {path: name or path[1:] for path, (name, _, _) in wanted.items()}, rows.columns
        assert len(found) == rows.count


@pytest.mark.parametrize("seed", SEEDS)
def test_a_row_with_odd_quotes_is_fetched_or_its_line_is_a_failure(
    seed: int, server: UrlServer, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    for number in range(LISTS):
        rows = Rows(chance, server.url)
        path = path_of(tmp_path, rows.separator, number)
        text = rows.write(path, is_odd=True)
        found, failed = read(path, tmp_path / f"out{number}", **rows.options)
        wanted = rows.rows(text)
        lines = re.split(r"\r\n|\r|\n", text)
        for line, written in enumerate(lines, 1):
            for target in re.findall(rf"{server.url}(/\d+)", written):
                name, first, last = wanted.get(target, ("", line, line))
                if "x,y" in written and target not in wanted:
                    continue  # a line with a cell too many is text to the module csv, between quotes, and here
                assert target in found or failed.keys() & {line, *range(first, last + 1)}, (text, line, failed)
                if target in found and target in wanted and first == last:
                    assert found[target] == (name or target[1:]), (text, line)
        assert not failed.keys() - set(range(2, len(lines) + 1)), (text, failed)
        assert found.keys() <= {f"/{row}" for row in range(rows.count)}


def json_line(chance: random.Random, url: str, number: int) -> str:
    """A line of JSON in which something may be odd."""
    values = [f"n{number}", f" {number}", number + 10**25, number + 0.5, None, "", True, [], {"url": "x"}]
    fields: list[tuple[str, Any]] = (
        [("url", url)] if chance.random() < 0.95 else [("url", chance.choice([None, 7, []]))]
    )
    fields += [("name", chance.choice(values)) for _ in range(chance.choice([0, 1, 1, 1, 2]))]
    fields += [(chance.choice(["x", "ü", "url ", "Url"]), chance.choice([*values, "two\nlines", "\ud83d"]))]
    fields += [("url", url)] * (chance.random() < 0.1)
    chance.shuffle(fields)
    escaped = chance.random() < 0.5
    parts = (f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=True)}" for key, value in fields)
    text = "{" + ", ".join(parts) + "}"
    return (text.replace("url", r"\u0075rl").replace("/", r"\/") if escaped else text) + chance.choice(
        ["", "", "", "}"]
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_lines_of_json_are_those_that_the_module_json_reads(seed: int, server: UrlServer, tmp_path: Path) -> None:
    chance = random.Random(seed)
    for number in range(LISTS):
        lines = [json_line(chance, f"{server.url}/{line}", line) for line in range(1, 30)]
        path = tmp_path / f"list{number}.jsonl"
        path.write_text("".join(line + chance.choice(ENDS) for line in lines), newline="")
        found, failed = read(path, tmp_path / f"out{number}", name_field="name")
        for line, text in enumerate(lines, 1):
            pairs: list[tuple[str, Any]] = []
            with contextlib.suppress(ValueError):
                pairs = json.loads(text, parse_int=str, parse_float=str, object_pairs_hook=list)
            fields = dict(pairs)
            name = fields.get("name")
            is_good = fields.get("url") == f"{server.url}/{line}" and isinstance(name, str | None)
            is_good = is_good and all([key for key, _ in pairs].count(key) < 2 for key in ("url", "name"))
            assert (f"/{line}" in found, line in failed) == (is_good, not is_good), (text, failed.get(line))
            assert not is_good or found[f"/{line}"] == (name or str(line)), text


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_of_parquet_are_those_that_pyarrow_reads(seed: int, server: UrlServer, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    chance = random.Random(seed)
    for number in range(LISTS):
        count = chance.randint(0, 60)
        urls = [f"{server.url}/{row}" if chance.random() < 0.9 else None for row in range(1, count + 1)]
        names = [chance.choice([None, "", f"{chance.choice(BEGINS)}n{row}"]) for row in range(1, count + 1)]
        kind = chance.choice([arrow.string(), arrow.large_string()])
        table = arrow.table({"x": range(count), "name": arrow.array(names, kind), "url": arrow.array(urls, kind)})
        path = tmp_path / f"list{number}.parquet"
        parquet.write_table(table, path, row_group_size=chance.choice([1, 7, 100]))
        found, failed = read(path, tmp_path / f"out{number}", name_field="name")
        rows = list(enumerate(parquet.read_table(path).to_pylist(), 1))
        assert failed.keys() == {line for line, row in rows if row["url"] is None}
        assert found == {f"/{line}": row["name"] or str(line) for line, row in rows if row["url"] is not None}


def test_a_name_is_the_same_in_every_kind_of_list(server: UrlServer, tmp_path: Path, shoal: Command) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    names = ["#1", "# 2", " lead", "trail ", "12345678901234567890123", "1.50", "true", '"quoted"', "é", "\ufeffx"]
    pairs = [(name, f"{server.url}/{number}") for number, name in enumerate(names)]
    plain = tmp_path / "list.txt"
    plain.write_text("# a comment\n" + "".join(f"{name}\t{url}\n" for name, url in pairs))
    for ending, separator in (("csv", ","), ("tsv", "\t")):
        with (tmp_path / f"list.{ending}").open("w", newline="") as file:
            csv.writer(file, delimiter=separator).writerows([("name", "url"), *pairs])
    objects = (f'{{"name": {json.dumps(name) if name[0] != "1" else name}, "url": "{url}"}}\n' for name, url in pairs)
    (tmp_path / "list.jsonl").write_text("".join(objects))
    parquet.write_table(arrow.table({"name": names, "url": [url for _, url in pairs]}), tmp_path / "list.parquet")
    wanted = {f"/{number}": name for number, name in enumerate(names)}
    for ending in ("csv", "tsv", "jsonl", "parquet"):
        assert read(tmp_path / f"list.{ending}", tmp_path / ending, name_field="name") == (wanted, {}), ending
    assert read(plain, tmp_path / "plain") == (wanted, {})
    assert read(package.urls(reversed(pairs)), tmp_path / "items") == (wanted, {})
    with plain.open() as stdin:
        assert shoal.start("copy", "--urls", "-", "stream", stdin=stdin).wait(60) == 0
    assert tree(tmp_path / "stream") == tree(tmp_path / "plain")


def test_an_item_that_begins_like_a_comment_is_a_failure(server: UrlServer, tmp_path: Path) -> None:
    found, failed = read(package.urls([f"#{server.url}/1", f"{server.url}/2"]), tmp_path / "out")
    assert (found, list(failed)) == ({"/2": "2"}, [1])


def test_a_row_with_more_cells_than_columns_is_a_failure(server: UrlServer, tmp_path: Path) -> None:
    path = tmp_path / "list.csv"
    path.write_text(f"id,url\n1,{server.url}/w_100,h_100/cat.jpg\n2,{server.url}/2,,\n3\n")
    found, failed = read(path, tmp_path / "out")
    assert found == {"/2": "2"}
    assert "more cells" in failed[2]
    assert "too few" in failed[4]


def test_two_columns_of_the_wanted_name_end_the_run(server: UrlServer, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "list.csv").write_text(f"url, url ,x\n{server.url}/1,{server.url}/2,3\n")
    table = arrow.Table.from_arrays([arrow.array([f"{server.url}/{n}"]) for n in range(3)], ["url", "url", "x"])
    parquet.write_table(table, tmp_path / "list.parquet")
    for ending in ("csv", "parquet"):
        with pytest.raises(package.ConfigError, match=r'several fields "url" \(`url_field`\)'):
            read(tmp_path / f"list.{ending}", tmp_path / "out")


@pytest.mark.parametrize("ending", ["txt", "csv", "parquet"])
def test_a_list_that_changes_while_it_is_read_stops_the_run(ending: str, server: UrlServer, tmp_path: Path) -> None:
    path, out = tmp_path / f"list.{ending}", tmp_path / "out"
    stop, found = threading.Event(), ""

    def touch() -> None:
        for at in itertools.count():
            os.utime(path, ns=(at, at))
            if stop.wait(0.001):
                return

    for size in itertools.count(1):  # until reading it takes long enough
        write_long(path, f"{server.url}/1", size)
        stop.clear()
        toucher = threading.Thread(target=touch)
        toucher.start()
        try:
            package.copy(package.urls(path), out, on_error="record", resume="restart")
        except package.RunError as error:
            found = str(error)
        stop.set()
        toucher.join()
        if found:
            break
        assert size < 10
    assert "the list has changed while it was read" in found
    assert not package.status(out).complete
    report = package.copy(package.urls(path), out, on_error="record")
    assert report.complete
    assert tree(out) == {"1": b"/1"}


def write_long(path: Path, url: str, size: int) -> None:
    """Writes a list with one URL that takes long to read."""
    if path.suffix == ".parquet":
        arrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.table({"url": [url] + [None] * 1_000 * size}), path, row_group_size=1)
        return
    path.write_text("url\n" * (path.suffix == ".csv") + f"{url}\n" + " \n" * 500_000 * size)
