"""Real object stores, each as it is: all objects arrive, also after a kill, and an update asks for nothing else.

Not here: what a store should not do (`test_s3.py`, `hostile/test_s3_lists.py`).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

import shoal as package
from conftest import Command
from faults.runs import committed, wait_for_commit
from s3_copies import flags, rows, source
from servers.s3_real import RealStore, stores
from test_s3_odd_keys import OBJECTS as ODD
from trees import tree

COUNT = 2_400  # objects: three pages


# Each store is started once, by one worker.
@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=pytest.mark.xdist_group(f"s3-{name}")) for name in stores]
)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealStore]:
    """A running store, with some objects."""
    with stores[request.param](tmp_path_factory.mktemp("store")) as running:
        running.fill(OBJECTS)
        yield running


OBJECTS = {f"p/{number % 3}/{number:05} a+b%25": (b"%06d " % number) * (number % 40 + 1) for number in range(COUNT)} | {
    "p/\u00fc": b"u",
    "p/empty": b"",
    "p/large": bytes(range(256)) * 1_200,
    "q": b"x",
}
NAMES = {key.removeprefix("p/"): data for key, data in OBJECTS.items() if key.startswith("p/")}

pytestmark = pytest.mark.usefixtures("aws")


def test_all_bytes_arrive_and_an_update_finds_them(store: RealStore, tmp_path: Path, shoal: Command) -> None:
    command = ["copy", f"s3://{store.bucket}/p", "out", *flags(store), "--json"]
    done = shoal.run(*command)
    assert done.returncode == 0, done.stderr
    assert tree(tmp_path / "out") == NAMES
    (tmp_path / "out/empty").unlink()
    again = shoal.last_json(shoal.run(*command, "--update"))
    assert (again["written"], again["unchanged"], again["failed"]) == (1, len(NAMES) - 1, 0)
    assert tree(tmp_path / "out") == NAMES


def test_a_copy_killed_three_times_is_completed(store: RealStore, tmp_path: Path, shoal: Command) -> None:
    command = [
        "copy",
        f"s3://{store.bucket}/p",
        "parquet:out",
        "--group-rows",
        "100",
        *flags(store),
        "--json",
        "--limit-rate",
        "60kB",
    ]
    for _ in range(3):
        running = shoal.start(*command)
        wait_for_commit(tmp_path / "out", committed(tmp_path / "out"))
        running.kill()
        running.wait()
    done = shoal.run(*command[:-2])
    assert done.returncode == 0, done.stderr
    assert rows(tmp_path / "out") == NAMES
    assert 0 < shoal.last_json(done)["written"] < len(NAMES)


def test_odd_keys_arrive_from_a_real_store_or_stop_the_run(aws: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # Its lists are not in percent-encoding, and its XML cannot say all keys.
    said = {
        key: data
        for key, data in ODD.items()
        if not any(unicodedata.category(c) in ("Cc", "Cn") or c == "\ufffd" for c in key)
    }
    (tmp_path / "store").mkdir()
    with stores["gofakes3"](tmp_path / "store") as store:
        store.fill({f"odd/{key}": data for key, data in said.items()})
        assert package.copy(source(store, "odd"), f"parquet:{tmp_path}/out").written == len(said) > 60
        assert rows(tmp_path / "out") == said
        store.fill({"odd/a\x01b": b"x"})
        with pytest.raises(package.RunError) as raised:
            package.copy(source(store, "odd"), f"parquet:{tmp_path}/stopped")
    assert raised.value.kind == "listing"
