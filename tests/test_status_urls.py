"""`shoal status --csv --urls LIST`: the URLs of failures, which the journal does not have."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING

import pytest

import shoal as package
from servers.url_server import Answer, UrlServer

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Command, Service


@pytest.mark.parametrize("ending", ["txt", "csv", "jsonl", "parquet"])
def test_a_table_of_failures_has_urls_from_the_list_if_their_records_are_the_same(
    shoal: Command, tmp_path: Path, server: UrlServer, ending: str
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    arrow = pytest.importorskip("pyarrow")

    def write_list(changed: int | None = None) -> Path:
        rows = [
            {"a\u00e4": f"name {n}", "my url": f"{server.url}/{n}?token=secret{n}{'x' * (n == changed)}"}
            for n in range(5)
        ]
        path = tmp_path / f"list.{ending}"
        if ending == "parquet":
            parquet.write_table(arrow.Table.from_pylist(rows), path)
        elif ending == "jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        elif ending == "csv":
            path.write_text("a\u00e4,my url\n" + "".join(",".join(row.values()) + "\n" for row in rows))
        else:
            path.write_text("".join("\t".join(row.values()) + "\n" for row in rows))
        return path

    fields = [] if ending == "txt" else ["--url-field", "my url", "--name", "{a\u00e4}/{host}"]
    for path in ("/1", "/3"):
        server.answers[f"{path}?token=secret{path[1:]}"] = Answer(status=404)
    listed = write_list()
    assert shoal.run("copy", "--urls", str(listed), "out", *fields).returncode == 1

    def table(*more: str) -> tuple[dict[str, str], str]:
        done = shoal.run("status", "out", "--csv", "--urls", str(listed), *more)
        assert done.returncode == 0, done
        rows = list(csv.DictReader(done.stdout.splitlines()))
        assert all(row["state"] == "failed" for row in rows)
        return {row["name"].partition("/")[0]: row["url"] for row in rows}, done.stderr

    urls = {f"name {n}": f"{server.url}/{n}?token=secret{n}" for n in (1, 3)}
    assert table() == (urls, "")
    write_list(changed=3)
    found, said = table()
    assert found == urls | {"name 3": ""}
    assert said.startswith("note: 1 object without a URL")
    write_list(changed=0)  # the key of all hashes
    assert set(table()[0].values()) == {""}
    assert b"token=" not in (shoal.directory / "out/.shoal/journal.db").read_bytes()
    assert "--urls needs --csv" in shoal.run("status", "out", "--urls", str(listed)).stderr
    assert "cannot be opened" in shoal.run("status", "out", "--csv", "--urls", "missing").stderr


def test_urls_are_only_for_runs_of_lists(shoal: Command, service: Service, tmp_path: Path) -> None:
    package.copy(service(synthetic="10:10").url, shoal.directory / "out")
    (tmp_path / "list").write_text("http://127.0.0.1:1/x\n")
    done = shoal.run("status", "out", "--csv", "--urls", str(tmp_path / "list"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "no run here has copied a list of URLs" in done.stderr
