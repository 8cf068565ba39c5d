"""The programs of examples/, run as a user does, on real files, archives and services."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest

import shoal as package
from waiting import wait_until

EXAMPLES = Path(__file__).parent.parent / "examples"
ENOUGH = 120  # seconds, on two busy cores


def command(name: str, *arguments: str | Path) -> list[str]:
    return [sys.executable, "-W", "ignore", str(EXAMPLES / name), *map(str, arguments)]


def run(name: str, *arguments: str | Path, code: int = 0, **variables: str) -> str:
    done = subprocess.run(
        command(name, *arguments), capture_output=True, text=True, timeout=ENOUGH, env=os.environ | variables
    )
    assert (done.returncode, done.stderr) == (code, "")
    return done.stdout


def files(directory: Path) -> dict[str, bytes]:
    """Every file below a directory but the journal's."""
    found = (path for path in directory.rglob("*") if path.is_file())
    names = {path.relative_to(directory).as_posix(): path.read_bytes() for path in found}
    return {name: data for name, data in names.items() if not name.startswith(".shoal/")}


def tree(directory: Path, count: int) -> dict[str, bytes]:
    made = {f"{n % 17}/{n % 5}/file {n}.bin": random.Random(n).randbytes(n % 3000) for n in range(count)}
    for name, data in made.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return made


def test_every_example_is_named_in_the_documents() -> None:
    text = (EXAMPLES.parent / "docs/examples.md").read_text()
    for path in EXAMPLES.glob("*.py"):
        assert f"../examples/{path.name}" in text, path.name


def test_a_backup_resumes_after_a_kill_and_then_copies_what_changed(tmp_path: Path) -> None:
    made, backup = tree(tmp_path / "tree", 30_000), tmp_path / "backup"

    def committed() -> int:
        with contextlib.suppress(package.ShoalError):  # there is no journal yet
            return sum(run.total.written for run in package.status(backup).runs)
        return 0

    slow = os.environ | {"SHOAL_WORKERS": "1"}
    with subprocess.Popen(command("backup.py", tmp_path / "tree", backup), env=slow) as killed:
        wait_until(lambda: killed.poll() is not None or committed() > 0)
        killed.kill()
    assert killed.returncode == -signal.SIGKILL, "it was over before it could be killed"
    done = committed()

    said = run("backup.py", tmp_path / "tree", backup)
    copied = re.fullmatch(r"([\d,]+) files copied, 0 unchanged, 0 failed\n", said)
    assert copied is not None
    assert int(copied[1].replace(",", "")) == 30_000 - done
    assert files(backup) == made

    (tmp_path / "tree/new.txt").write_text("new")
    said = run("backup.py", tmp_path / "tree", backup)
    assert said == "1 files copied, 30,000 unchanged, 0 failed\n"
    assert files(backup) == made | {"new.txt": b"new"}


class Reports(http.server.BaseHTTPRequestHandler):
    """A service that is written without shoal: a token, pages of two, conditional requests."""

    protocol_version = "HTTP/1.1"
    reports: ClassVar[dict[int, tuple[dict[str, Any], float]]]
    bodies: int

    def do_GET(self) -> None:  # http.server calls it so
        url = urlsplit(self.path)
        if self.headers["Authorization"] != "Bearer secret":
            return self.answer(401, {})
        if url.path == "/v2/reports":
            after = int(parse_qs(url.query).get("after", ["0"])[0])
            ids = [n for n in sorted(self.reports) if n > after][:2]
            more = {"cursor": ids[-1]} if ids and ids[-1] < max(self.reports) else {}
            return self.answer(200, {"data": [{"id": n} for n in ids], **more})
        report, changed = self.reports[int(url.path.split("/")[3])]
        if self.headers["If-Modified-Since"] == formatdate(changed, usegmt=True):
            return self.answer(304, None, changed)
        type(self).bodies += 1
        return self.answer(200, report, changed)

    def answer(self, status: int, value: object, changed: float | None = None) -> None:
        body = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if changed is not None:
            self.send_header("Last-Modified", formatdate(changed, usegmt=True))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Prints nothing."""


@pytest.fixture
def reports() -> Iterator[tuple[str, type[Reports]]]:
    class Service(Reports):
        reports: ClassVar = {n: ({"id": n, "rows": list(range(n))}, 1.7e9 + n) for n in range(1, 8)}
        bodies = 0

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v2", Service
        server.shutdown()
        thread.join()


def test_a_mirror_fetches_everything_and_later_only_what_changed(
    tmp_path: Path, reports: tuple[str, type[Reports]]
) -> None:
    url, service = reports
    assert run("mirror_service.py", url, tmp_path / "out", TOKEN="secret") == "7 objects fetched, 0 unchanged\n"

    service.reports[3] = ({"id": 3, "rows": ["changed"]}, 1.8e9)
    service.reports[9] = ({"id": 9}, 1.8e9)
    service.bodies = 0
    assert run("mirror_service.py", url, tmp_path / "out", TOKEN="secret") == "2 objects fetched, 6 unchanged\n"
    assert service.bodies == 2
    found = {name: json.loads(data) for name, data in files(tmp_path / "out").items()}
    assert found == {f"{n}.json": report for n, (report, _) in service.reports.items()}


def test_tiny_objects_become_rows_that_duckdb_reads(tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="DuckDB is not installed")
    with package.serve(synthetic="50000:100") as server:
        said = run("tiny_objects.py", server.url, tmp_path / "out")
        again = run("tiny_objects.py", server.url, tmp_path / "out")
    assert said == "50,000 objects, 5,000,000 bytes; object-000000017 begins with b'object-000000017'\n"
    assert again == said


def test_good_archives_are_unpacked_beside_a_damaged_one(tmp_path: Path) -> None:
    downloads, expected = tmp_path / "downloads/deep", {}
    downloads.mkdir(parents=True)
    for month in ("march", "april"):
        with zipfile.ZipFile(downloads / f"{month}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for day in range(30):
                expected[f"{month}/{day:02}.csv"] = f"day,count\n{day},1\n".encode() * 100
                archive.writestr(f"{day:02}.csv", expected[f"{month}/{day:02}.csv"])
    with tarfile.open(downloads / "may.TAR.GZ", "w:gz") as packed:
        expected["may/notes.txt"] = b"notes"
        about = tarfile.TarInfo("notes.txt")
        about.size = 5
        packed.addfile(about, io.BytesIO(b"notes"))
    (downloads / "torn.zip").write_bytes((downloads / "march.zip").read_bytes()[:500])

    said = run("unpack_archives.py", tmp_path / "downloads", tmp_path / "out", code=1)
    assert said.startswith(f"61 files, {sum(map(len, expected.values())):,} bytes, 1 failures\n")
    assert "torn.zip" in said
    assert files(tmp_path / "out") == expected


def test_the_hashes_are_those_of_sha256sum(tmp_path: Path) -> None:
    made = tree(tmp_path / "tree", 300) | {"large": random.Random(1).randbytes(40 << 20), "empty": b""}
    for name in ("large", "empty"):
        (tmp_path / "tree" / name).write_bytes(made[name])

    said = run("hash_tree.py", tmp_path / "tree")
    assert said == "".join(f"{hashlib.sha256(made[name]).hexdigest()}  {name}\n" for name in sorted(made))
    if shutil.which("sha256sum"):
        checked = subprocess.run(
            ["sha256sum", "--check", "--quiet"], input=said, cwd=tmp_path / "tree", text=True, timeout=ENOUGH
        )
        assert checked.returncode == 0


def test_each_image_reaches_the_model_once(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed: make test-torch")
    (tmp_path / "images/deep").mkdir(parents=True)
    for number in range(100):
        image.new("RGB", (80, 60), (255, number, 0)).save(tmp_path / f"images/deep/{number}.png")

    said = run("images_to_torch.py", tmp_path / "images")
    assert said == f"100 images, mean colour [1.0, {sum(range(100)) / 100 / 255:.3f}, 0.0]\n"


def test_the_lines_of_all_logs_are_counted_and_those_of_another_form_shown(tmp_path: Path) -> None:
    pytest.importorskip("polars", reason="Polars is not installed")
    draw = random.Random(7)
    expected: dict[tuple[str | None, str | None], tuple[int, int]] = {}
    (tmp_path / "logs/web").mkdir(parents=True)
    for number in range(250):
        lines = []
        for _ in range(draw.randrange(40)):
            key = (f"{draw.randrange(20, 24)}/Nov/2026", draw.choice(["200", "304", "404"]))
            size = 0 if key[1] == "304" else draw.randrange(5000)
            lines.append(f'192.0.2.7 - - [{key[0]}:20:19:30 +0000] "GET /a HTTP/1.1" {key[1]} {size or "-"} "-"')
            count, total = expected.get(key, (0, 0))
            expected[key] = (count + 1, total + size)
        (tmp_path / f"logs/web/{number}.log").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "logs/odd.log").write_text("not a line of an access log\n")
    (tmp_path / "logs/notes.txt").write_text("not a log\n")

    script = f"import sys; sys.path.insert(0, {str(EXAMPLES)!r}); import logs_to_polars as example\n"
    script += "print(example.answers('logs').write_json())"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=ENOUGH, check=True
    )
    found = {(row["day"], row["status"]): (row["len"], row["bytes"]) for row in json.loads(done.stdout)}
    assert found == expected | {(None, None): (1, 0)}
    assert "(13, 4)" in run("logs_to_polars.py", tmp_path / "logs")


def test_outputs_of_a_model_are_saved_and_a_second_call_resumes(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy", reason="NumPy is not installed")
    prompts = [f"prompt {number} " * (number % 7) for number in range(1500)]
    (tmp_path / "prompts.txt").write_text("".join(f"{prompt}\n" for prompt in prompts))

    said = run("save_outputs.py", tmp_path / "prompts.txt", tmp_path / "out")
    assert said.startswith("3,000 files, ")
    run("save_outputs.py", tmp_path / "prompts.txt", tmp_path / "out")

    for number, prompt in enumerate(prompts):
        place = tmp_path / f"out/{number // 1000:04}/{number:07}"
        vector = numpy.load(place.with_suffix(".npy"))
        assert vector.tolist() == [prompt.encode().count(bytes([value])) for value in range(256)]
        assert json.loads(place.with_suffix(".json").read_text())["prompt"] == prompt
