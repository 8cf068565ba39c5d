"""Real object stores on loopback, as programs of their own; `scripts/install_test_tools.sh` installs them.

`stores` has how each is started. A store that is not there skips its tests. Not here: our own store, which can
misbehave (`s3_store.py`).
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from servers.signatures import Client, Key

TOOLS = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "shoal-test-tools"
START_LIMIT = 30.0  # seconds
FILLING = 8  # connections that fill a store
BUCKET = "bucket"


@dataclass
class RealStore:
    """A running store with one bucket.

    Attributes:
        directory: Where it keeps the objects of the bucket as files, if it does.
    """

    name: str
    port: int
    key: Key
    directory: Path | None = None
    bucket: str = BUCKET

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def fill(self, objects: Mapping[str, bytes]) -> None:
        """Stores objects: as files if it has a directory of them, else by requests."""
        if self.directory:
            for name, data in objects.items():
                path = self.directory / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            return
        every = list(objects.items())
        with ThreadPoolExecutor(FILLING) as pool:
            list(pool.map(self._put, (every[start::FILLING] for start in range(FILLING))))

    def _put(self, objects: list[tuple[str, bytes]]) -> None:
        with contextlib.closing(Client(self.port, self.key)) as client:
            for name, data in objects:
                status, body = client("PUT", f"/{self.bucket}/{name}".encode(), body=data)
                assert status == 200, (name, body)


def program(name: str) -> str:
    """Returns the path of a program, or skips the test."""
    path = shutil.which(name, path=f"{TOOLS}:{TOOLS}/venv/bin:{os.environ['PATH']}")
    if path is None:
        pytest.skip(f"needs {name} (scripts/install_test_tools.sh)")
    return path


def free_port(*, above: tuple[int, ...] = (0,)) -> int:
    """Returns a port that is free, and so are those that are so far above it."""
    while True:
        port = random.randrange(10_000, 21_000)
        with contextlib.suppress(OSError):
            for distance in above:
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port + distance))
            return port


@contextlib.contextmanager
def running(store: RealStore, place: Path, *command: str, **environment: str) -> Iterator[RealStore]:
    """Runs a store, with a bucket in it."""
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=place, env=os.environ | environment, stdout=log, stderr=log, start_new_session=True
        )
    try:
        deadline = time.monotonic() + START_LIMIT
        while not made_bucket(store):
            assert process.poll() is None, f"{store.name} has ended: {(place / 'log').read_text()}"
            assert time.monotonic() < deadline, f"{store.name} did not start: {(place / 'log').read_text()}"
            time.sleep(0.02)
        yield store
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what it holds is thrown away
        process.wait()


def made_bucket(store: RealStore) -> bool:
    """Whether the store is there and has the bucket now."""
    with contextlib.suppress(OSError), contextlib.closing(Client(store.port, store.key)) as client:
        return client("PUT", f"/{store.bucket}".encode())[0] in (200, 409)
    return False


@contextlib.contextmanager
def versitygw(place: Path) -> Iterator[RealStore]:
    """A gateway to a directory. Without `--keep-alive` it closes each connection after one answer."""
    store = RealStore("versitygw", free_port(), Key(), place / "data" / BUCKET)
    (place / "data").mkdir()
    command = [program("versitygw"), "--port", f"127.0.0.1:{store.port}", "--keep-alive", "--quiet", "posix"]
    key = {"ROOT_ACCESS_KEY": store.key.access_key, "ROOT_SECRET_KEY": store.key.secret_key}
    with running(store, place, *command, str(place / "data"), **key):
        yield store


@contextlib.contextmanager
def gofakes3(place: Path) -> Iterator[RealStore]:
    """A store in memory that takes any key, and checks no signature."""
    store = RealStore("gofakes3", free_port(), Key())
    with running(store, place, program("gofakes3"), "-host", f"127.0.0.1:{store.port}", "-backend", "memory"):
        yield store


@contextlib.contextmanager
def seaweedfs(place: Path) -> Iterator[RealStore]:
    """SeaweedFS, which passes over keys behind some `start-after`."""
    ports = range(4)
    store = RealStore("seaweedfs", free_port(above=(*ports, *(10_000 + port for port in ports))), Key())
    credentials = [{"accessKey": store.key.access_key, "secretKey": store.key.secret_key}]
    actions = ["Admin", "Read", "List", "Write"]
    identities = [{"name": "tests", "credentials": credentials, "actions": actions}]
    (place / "keys.json").write_text(json.dumps({"identities": identities}))
    options = {
        "-dir": str(place),
        "-s3.config": str(place / "keys.json"),
        "-ip": "127.0.0.1",
        "-ip.bind": "127.0.0.1",
        "-s3.port": store.port,
        "-master.port": store.port + 1,
        "-volume.port": store.port + 2,
        "-filer.port": store.port + 3,
        "-s3.port.lance": 0,
        "-s3.port.iceberg": 0,
        "-master.volumeSizeLimitMB": 256,
        "-volume.max": 20,
    }
    words = [str(word) for option in options.items() for word in option]
    with running(store, place, program("weed"), "server", "-s3", *words):
        yield store


stores: dict[str, Callable[[Path], contextlib.AbstractContextManager[RealStore]]] = {
    "versitygw": versitygw,
    "gofakes3": gofakes3,
    "seaweedfs": seaweedfs,
}
