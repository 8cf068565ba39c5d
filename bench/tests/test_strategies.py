"""The scripts behind the rows: each runs by itself, does the whole job, and ends with an error where it cannot."""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from conftest import PATIENCE, Service
from shoal_bench import jobs
from shoal_bench.contestants import BARE_LOOPS, BENCH, Contestant, Task

SIZE = 100


def rows(job: str) -> dict[str, Contestant]:
    """The strategies of a job that are Python."""
    return {one.key: one for one in jobs.named(job).contestants() if one.kind == "strategy" and "ruby" not in one.key}


def command_of(one: Contestant) -> list[str]:
    place = Path("/nowhere")
    task = Task(directory=place, count=7, scratch=place, url="http://there", file=place, archives=place)
    return one.command(task)


def script_of(one: Contestant) -> Path:
    return Path(command_of(one)[1])


COPIERS, SAVERS, READERS = rows("copy"), rows("save"), rows("read")
SAVERS["limit"] = next(one for one in jobs.named("save").contestants() if one.key == "limit")
ALL = [(job, one) for job in jobs.JOBS for one in rows(job).values()]
# Their programs know no other number of workers.
ONE_WORKER = {"synchronous", "session", "sequential", "serial"}


def start(one: Contestant, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs the script of a row with arguments of the test, and the row's own options."""
    if one.missing():
        pytest.skip(str(one.missing()))
    own = [word for word in ("--session", "--batch=0") if word in command_of(one)]
    command = [sys.executable, script_of(one), *arguments, *own]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)


def run(one: Contestant, *arguments: str | Path) -> dict[str, object]:
    done = start(one, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    assert isinstance(found["seconds"], float)
    assert found["seconds"] > 0
    return found


def imports(path: Path) -> set[str]:
    """The packages that a script imports, whatever for."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    found = {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    found |= {node.module or "." for node in nodes if isinstance(node, ast.ImportFrom)}
    return {name.split(".")[0] for name in found} - {*sys.stdlib_module_names, "__future__"}


@pytest.mark.parametrize(("job", "one"), ALL, ids=lambda one: getattr(one, "key", one))
def test_a_strategy_is_a_script_that_imports_only_what_its_row_names(job: str, one: Contestant) -> None:
    assert script_of(one).parent == BENCH / "strategies" / job
    assert imports(script_of(one)) == set(one.packages)


@pytest.mark.parametrize("job", jobs.JOBS)
def test_every_script_of_a_job_has_a_row(job: str) -> None:
    scripts = {path for path in (BENCH / "strategies" / job).glob("*.py") if path.stem != "__init__"}
    assert scripts == {script_of(one) for one in rows(job).values()}


def content(index: int) -> bytes:
    line = b"object-%09d\n" % index
    return (line * (SIZE // len(line) + 1))[:SIZE]


def files(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def expected(count: int) -> dict[str, bytes]:
    return {f"object-{index:09}": content(index) for index in range(count)}


class Faulty(BaseHTTPRequestHandler):
    """A service that is wrong in the way that its path names."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        _, fault, what, *_ = [*self.path.split("/"), ""]
        listing = what.startswith("list")
        body = json.dumps({"FileNames": [f"f{index}" for index in range(300)]}).encode() if listing else b"0123456789"
        wrong = listing == (fault == "status-of-the-listing")
        self.send_response(206 if wrong and fault != "short-body" else 200)
        self.send_header("Content-Length", str(len(body) + (wrong and fault == "short-body")))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = wrong

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def faulty() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Faulty) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("key", COPIERS)
def test_every_copier_copies_every_byte(key: str, service: Service, tmp_path: Path) -> None:
    server = service(synthetic=f"350:{SIZE}", page_size=100)
    printed = run(COPIERS[key], server.url, tmp_path)
    assert files(tmp_path) == expected(350)
    assert set(printed) == {"objects", "bytes", "seconds", "workers"}
    assert (printed["objects"], printed["bytes"]) == (350, 350 * SIZE)
    assert isinstance(printed["workers"], int)
    assert printed["workers"] >= 1


@pytest.mark.parametrize("key", COPIERS)
def test_a_limit_ends_the_listing_and_workers_are_as_asked(key: str, service: Service, tmp_path: Path) -> None:
    server = service(synthetic=f"350:{SIZE}", page_size=100)
    workers = 1 if key in ONE_WORKER else 3
    printed = run(COPIERS[key], server.url, tmp_path, "--limit", "120", "--workers", str(workers))
    assert files(tmp_path) == expected(120)
    assert (printed["objects"], printed["bytes"], printed["workers"]) == (120, 120 * SIZE, workers)


@pytest.mark.parametrize("key", [key for key in COPIERS if key not in ("session", "threads-100")])
@pytest.mark.parametrize("fault", ["status of a file", "status of the listing", "short body"])
def test_what_goes_wrong_with_a_copy_is_an_error(key: str, fault: str, faulty: str, tmp_path: Path) -> None:
    done = start(COPIERS[key], f"{faulty}/{fault.replace(' ', '-')}", tmp_path)
    assert done.returncode == 1
    assert "Error" in done.stderr
    assert "objects" not in done.stdout


def table(number: int) -> str:
    """The content of a file of the study of saving."""
    return "\n".join(",".join(str(number + line + column) for column in range(10)) for line in range(5000))


@pytest.mark.parametrize("key", SAVERS)
def test_every_saver_saves_every_byte_with_as_many_workers_as_asked(key: str, tmp_path: Path) -> None:
    unbounded = "unbounded" in key
    asked = ["--workers", "0" if unbounded else "1" if key in ONE_WORKER else "3"]
    printed = run(SAVERS[key], tmp_path, "7", *asked)
    wanted = {f"data-{number:04d}.csv": table(number) for number in range(7)}
    assert {path.name: path.read_bytes().decode() for path in tmp_path.iterdir()} == wanted
    assert set(printed) == {"objects", "bytes", "seconds", "workers"}
    assert (printed["objects"], printed["bytes"]) == (7, sum(map(len, wanted.values())))
    assert printed["workers"] == (7 if unbounded else int(asked[1]))


@pytest.mark.parametrize("key", [key for key in SAVERS if key not in ONE_WORKER | {"threads-100"}])
def test_workers_may_be_more_than_files(key: str, tmp_path: Path) -> None:
    run(SAVERS[key], tmp_path, "1")
    assert [path.name for path in tmp_path.iterdir()] == ["data-0000.csv"]


@pytest.mark.parametrize("key", [key for key in SAVERS if key != "threads-100"])
def test_a_save_that_fails_is_an_error(key: str, tmp_path: Path) -> None:
    (tmp_path / "data-0003.csv").mkdir()
    done = start(SAVERS[key], tmp_path, "6")
    assert done.returncode == 1
    assert "Error" in done.stderr
    assert "objects" not in done.stdout


def test_every_script_makes_the_same_content() -> None:
    # The function is written in each, as each is to be taken away; that must not become a difference in speed.
    made = {}
    for script in {*map(script_of, SAVERS.values()), BENCH / "ours" / "generate.py"}:
        nodes = ast.parse(script.read_text()).body
        (function,) = [node for node in nodes if isinstance(node, ast.FunctionDef) and node.name == "make"]
        made[script.name] = ast.unparse(function)
    assert len(set(made.values())) == 1, made


def test_tables_of_numpy_and_arrow_hold_the_same_numbers() -> None:
    numpy, pyarrow = pytest.importorskip("numpy"), pytest.importorskip("pyarrow")
    spec = importlib.util.spec_from_file_location("ours_save", BENCH / "ours" / "save.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for number in (0, 7, 123_456):
        found = module.array(number)
        assert (found.dtype, found.shape) == (numpy.int64, (5000, 10))
        assert "\n".join(",".join(map(str, row)) for row in found.tolist()) == table(number)
        columns = module.table(number)
        assert isinstance(columns, pyarrow.Table)
        assert (numpy.column_stack([column.to_numpy() for column in columns.columns]) == found).all()


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few hundred files of many sizes on three levels, and what is no file."""
    base = tmp_path_factory.mktemp("tree")
    for number in range(230):
        folder = base / ("." if number % 3 == 0 else f"{number % 3}" if number % 3 == 1 else "2/deeper")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"file {number}").write_bytes(bytes([number]) * number**2)
    (base / "empty").mkdir()
    (base / "link").symlink_to(base / "2")
    (base / "link to a file").symlink_to(base / "file 9")
    return base


def tree_of(base: Path) -> dict[str, bytes]:
    paths = [path for path in base.rglob("*") if path.is_file() and not path.is_symlink()]
    return {str(path.relative_to(base)): path.read_bytes() for path in paths}


READ = [key for key in READERS if key not in ("threads-2", "threads-64")]


@pytest.mark.parametrize("key", READ)
def test_every_reader_reads_every_byte(key: str, tree: Path) -> None:
    found = tree_of(tree)
    assert len(found) == 230
    workers = [] if key in ONE_WORKER else ["--workers", "3"]
    printed = run(READERS[key], tree, "--verify", *workers)
    assert (printed["objects"], printed["bytes"]) == (230, sum(map(len, found.values())))
    assert printed["proof"] == sum(zlib.crc32(name.encode() + data) for name, data in found.items())
    assert printed["workers"] == (3 if workers else 1)
    timed = run(READERS[key], tree, *workers)
    assert set(timed) == {"objects", "bytes", "seconds", "workers"}, "no proof in a trial that counts"
    assert (timed["objects"], timed["bytes"]) == (printed["objects"], printed["bytes"])


@pytest.mark.parametrize("key", READ)
def test_an_empty_directory_is_nothing_to_read_and_a_missing_one_is_an_error(key: str, tmp_path: Path) -> None:
    printed = run(READERS[key], tmp_path)
    assert (printed["objects"], printed["bytes"]) == (0, 0)
    done = start(READERS[key], tmp_path / "missing")
    assert done.returncode == 1
    assert "FileNotFoundError" in done.stderr
    assert "objects" not in done.stdout


def test_the_limit_of_read_reads_every_file_once(tree: Path) -> None:
    found = tree_of(tree)
    for workers in (1, 3):
        command = [BARE_LOOPS, "read", str(tree), "--workers", str(workers)]
        printed = json.loads(subprocess.check_output(command, timeout=PATIENCE))
        assert (printed["objects"], printed["bytes"]) == (230, sum(map(len, found.values())))
