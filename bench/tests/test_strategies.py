"""The baselines of the bench, each run as the script it is, against the real service."""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from conftest import PATIENCE, Service

SCRIPTS = Path(__file__).parent.parent / "python" / "shoal_bench" / "strategies" / "copy"
SIZE = 100


def constants(path: Path) -> dict[str, object]:
    """Returns a module's constants that are written out, without importing what it needs."""
    found: dict[str, object] = {}
    for node in ast.parse(path.read_text()).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
            try:
                found[target.id] = ast.literal_eval(node.value)
            except ValueError:
                found[target.id] = ast.unparse(node.value)
    return found


def names(found: object) -> tuple[str, ...]:
    assert isinstance(found, tuple)
    return found


ORDER = names(constants(SCRIPTS / "__init__.py")["ORDER"])


def content(index: int) -> bytes:
    line = b"object-%09d\n" % index
    return (line * (SIZE // len(line) + 1))[:SIZE]


def start(strategy: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    script = SCRIPTS / f"{strategy}.py"
    missing = [name for name in names(constants(script)["REQUIRES"]) if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    command = [sys.executable, script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)


def run(strategy: str, *arguments: str | Path) -> dict[str, object]:
    done = start(strategy, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    return found


def files(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def expected(count: int, layout: str) -> dict[str, bytes]:
    folder = {"names": "", "partition": "00/0000/{:02}/"}[layout]
    return {folder.format(index // 100) + f"object-{index:09}": content(index) for index in range(count)}


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


@pytest.mark.parametrize("layout", ["names", "partition"])
@pytest.mark.parametrize("strategy", ORDER)
def test_every_strategy_copies_every_byte(strategy: str, layout: str, service: Service, tmp_path: Path) -> None:
    server = service(synthetic=f"350:{SIZE}", page_size=100)
    printed = run(strategy, server.url, tmp_path, "--layout", layout)
    assert files(tmp_path) == expected(350, layout)
    assert set(printed) == {"objects", "bytes", "seconds", "workers"}
    assert (printed["objects"], printed["bytes"]) == (350, 350 * SIZE)
    assert isinstance(printed["seconds"], float)
    assert printed["seconds"] > 0
    assert isinstance(printed["workers"], int)
    assert printed["workers"] >= 1


@pytest.mark.parametrize("strategy", ORDER)
def test_a_limit_ends_the_listing_and_workers_are_as_asked(strategy: str, service: Service, tmp_path: Path) -> None:
    server = service(synthetic=f"350:{SIZE}", page_size=100)
    workers = 1 if strategy in {"synchronous", "session"} else 3
    printed = run(strategy, server.url, tmp_path, "--limit", "120", "--workers", str(workers))
    assert files(tmp_path) == expected(120, "names")
    assert (printed["objects"], printed["bytes"], printed["workers"]) == (120, 120 * SIZE, workers)


@pytest.mark.parametrize("strategy", ORDER)
@pytest.mark.parametrize("fault", ["status of a file", "status of the listing", "short body"])
def test_what_goes_wrong_is_an_error(strategy: str, fault: str, faulty: str, tmp_path: Path) -> None:
    done = start(strategy, f"{faulty}/{fault.replace(' ', '-')}", tmp_path)
    assert done.returncode == 1
    assert "Error" in done.stderr
    assert "objects" not in done.stdout


@pytest.mark.parametrize("strategy", ORDER)
def test_no_strategy_imports_shoal(strategy: str) -> None:
    nodes = list(ast.walk(ast.parse((SCRIPTS / f"{strategy}.py").read_text())))
    imported = {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    imported |= {node.module or "." for node in nodes if isinstance(node, ast.ImportFrom)}
    assert not {name for name in imported if name.split(".")[0] in {"", "shoal"}}


def test_the_order_names_every_strategy_and_each_has_its_constants() -> None:
    assert sorted(ORDER) == sorted(path.stem for path in SCRIPTS.glob("*.py") if path.stem != "__init__")
    for strategy in ORDER:
        found = constants(SCRIPTS / f"{strategy}.py")
        assert {"NAME", "PUBLISHED", "REQUIRES", "DEFAULT_WORKERS"} <= set(found)
        assert isinstance(found["PUBLISHED"], dict)
