"""What other programs take for an address of a machine, a store or a service is no path, unless one has that name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import shoal as package

if TYPE_CHECKING:
    from collections.abc import Callable

MACHINE = "mount what is on the other machine and use its path; or run `shoal serve DIR` there"
STORE = "shoal does not know this store: mount it and use its path"
ADDRESSES = {
    "user@host:backup": MACHINE,
    "user@host:/backup": MACHINE,
    "user@my-host.example:": MACHINE,
    "my-host:/backup": MACHINE,
    "host:~/backup": MACHINE,
    "my-host.example:": MACHINE,
    "host:": MACHINE,
    "rsync://host/module": MACHINE,
    "sftp://user:pass@host/x": MACHINE,
    "gs://bucket/x": '`endpoint="https://storage.googleapis.com"`',
    "s3a://bucket/x": "write s3://BUCKET/PREFIX",
    "hf://datasets/x": STORE,
    "127.0.0.1:8080": "use http://127.0.0.1:8080",
    "127.0.0.1:8080/base": "use http://127.0.0.1:8080/base",
    "localhost:8080": "use http://localhost:8080",
}
PATHS = ["backup-2026-11-27T10:30:00", "log-10:30", "v1.2:x", "a/user@host:/x", "./user@host:x"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory with a tree beside it."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a").write_text("a")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


def test_a_bucket_is_no_destination_yet() -> None:
    with pytest.raises(package.ConfigError, match="not a valid destination") as caught:
        package.copy("../tree", "s3://bucket/x")
    assert "cannot write into a bucket yet" in (caught.value.hint or "")


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_of_another_program_is_refused_with_what_to_use(address: str) -> None:
    uses: list[Callable[[], object]] = [
        lambda: package.copy("../tree", address),
        lambda: package.copy(address, "out"),
        lambda: package.save([("a", b"a")], address),
        lambda: next(package.read(address)),
    ]
    for use in uses:
        with pytest.raises(package.ConfigError, match=r"not a valid (source|destination)") as caught:
            use()
        assert ADDRESSES[address] in (caught.value.hint or "")
        assert "pass@" not in str(caught.value)
        assert f'"{address}": not a valid' in str(caught.value) or "pass@" in address
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.parametrize("address", ["user@host:backup", "user@host:/backup", "127.0.0.1:8080"])
def test_a_path_that_exists_is_one_whatever_it_looks_like(here: Path, address: str) -> None:
    Path(address).mkdir(parents=True)
    assert package.copy("../tree", address).written == 1
    assert package.copy(address, "out").written == 1
    assert (here / "here" / "out" / "a").read_text() == "a"
    assert package.copy("../tree", f"./new-{address}").written == 1


@pytest.mark.parametrize("name", PATHS)
def test_a_name_with_a_colon_that_is_no_address_is_a_path(name: str) -> None:
    assert package.copy("../tree", name).written == 1
    assert [obj.name for obj in package.read(name)] == ["a"]


def test_a_table_of_urls_that_is_copied_as_a_file_says_so(here: Path) -> None:
    for name, text, noted in [
        ("images.csv", "name,url\na,http://h/a\n", True),
        ("images.JSONL", '{"url": "https://h/a"}\n', True),
        ("list", "http://h/a\n", True),
        ("numbers.csv", "a,b\n1,2\n", False),
        ("page.html", "<a href=http://h/a>", False),
    ]:
        (here / name).write_text(text)
        notes = package.copy(here / name, here / f"out-{name}").notes
        assert any("contains URLs, and is copied itself" in note for note in notes) is noted, name
