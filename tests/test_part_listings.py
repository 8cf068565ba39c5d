"""Parts of a job on machines that do not see the same source: none of them makes the job complete."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import shoal as package
from conftest import Command, Service

NAMES = [f"f{number:04}" for number in range(600)]


def fill(directory: Path, names: list[str]) -> None:
    directory.mkdir()
    for name in names:
        (directory / name).write_text(f"content of {name}")


class Machines:
    """Runs parts of one job; for one part, something else is in the place of the source."""

    def __init__(self, shoal: Command, source: str, destination: str, *options: str) -> None:
        self.shoal, self.source, self.destination, self.options = shoal, source, destination, options
        self.place = shoal.directory / source
        self.count = 4

    def part(self, index: int, *more: str) -> tuple[int, dict[str, Any]]:
        given = ("--urls", self.source) if self.place.is_file() else (self.source,)
        done = self.shoal.run(
            "copy", *given, self.destination, "--part", f"{index}/{self.count}", *self.options, *more, "--json"
        )
        return done.returncode, self.shoal.last_json(done)

    def elsewhere(self, other: Path, call: Callable[[], Any]) -> Any:
        """Calls while the source is another one, as on a machine without the mount."""
        here = self.place.rename(self.place.with_name("here"))
        other.rename(self.place)
        try:
            return call()
        finally:
            self.place.rename(other)
            here.rename(self.place)

    def status(self, *more: str) -> tuple[int, dict[str, Any]]:
        done = self.shoal.run("status", self.destination, "--json", "--exit-code", *more)
        return done.returncode, self.shoal.last_json(done)

    def names(self) -> list[str]:
        with package.read(self.destination_path()) as reader:
            return sorted(one.name for one in reader)

    def destination_path(self) -> str:
        kind, _, path = self.destination.rpartition(":")
        return f"{kind}:{self.shoal.directory / path}" if kind else str(self.shoal.directory / path)


@pytest.mark.parametrize("destination", ["out", "parquet:out"])
@pytest.mark.parametrize("seen", [0, 300], ids=["empty", "older"])
def test_a_part_that_saw_another_directory_keeps_the_job_from_being_complete_until_it_is_listed_again(
    shoal: Command, destination: str, seen: int
) -> None:
    fill(shoal.directory / "src", NAMES)
    fill(shoal.directory / "other", NAMES[:seen])
    job = Machines(shoal, "src", destination)
    assert [job.part(index)[0] for index in (0, 1)] == [0, 0]
    code, told = job.elsewhere(shoal.directory / "other", lambda: job.part(2))
    assert (code, told["kind"]) == (1, "different-listings")
    assert f"part 2 saw {seen} names, parts 0-1 saw 600 names" in told["message"]
    assert "--relist" in told["hint"]
    code, told = job.part(3)
    assert (code, told["kind"]) == (1, "different-listings"), "the others see it too"
    assert f"part 2 saw {seen} names, parts 0-1, 3 saw 600 names" in told["message"]
    code, told = job.elsewhere(shoal.directory / "other", lambda: job.part(2))
    assert (code, told["kind"]) == (1, "different-listings"), "the same command again"
    code, status = job.status()
    assert (code, status["ok"], status["complete"]) == (1, False, False)
    assert "part 2 saw" in status["different_listings"]
    assert len(job.names()) < 600
    code, told = job.part(2, "--relist")
    assert code == 0, told
    assert job.names() == NAMES
    code, status = job.status()
    assert (code, status["ok"], status["complete"], status["different_listings"]) == (0, True, True, None)
    assert status["total"]["written"] == 600


@pytest.mark.parametrize("destination", ["out", "parquet:out"])
def test_a_part_that_saw_an_older_list_of_urls_is_named_and_repaired_by_relist(
    shoal: Command, service: Service, destination: str
) -> None:
    fill(shoal.directory / "files", NAMES)
    url = service(shoal.directory / "files").url
    lines = [f"{name}\t{url}/get/{name}\n" for name in NAMES]
    (shoal.directory / "list.txt").write_text("".join(lines))
    (shoal.directory / "older.txt").write_text("".join(lines[:300]))
    job = Machines(shoal, "list.txt", destination)
    codes = [job.part(0)[0], job.elsewhere(shoal.directory / "older.txt", lambda: job.part(1))[0]]
    assert [*codes, job.part(2)[0], job.part(3)[0]] == [0, 1, 1, 1]
    assert job.status()[0] == 1
    assert job.part(1, "--relist")[0] == 0
    assert job.names() == NAMES
    assert job.status()[0] == 0


def test_other_names_of_the_same_number_are_noticed_and_can_be_accepted_but_an_empty_source_cannot(
    shoal: Command,
) -> None:
    fill(shoal.directory / "src", NAMES[:300])
    fill(shoal.directory / "other", NAMES[300:])
    fill(shoal.directory / "empty", [])
    job = Machines(shoal, "src", "out")
    assert job.part(0)[0] == 0
    code, told = job.elsewhere(shoal.directory / "other", lambda: job.part(1))
    assert code == 1
    assert "part 1 saw 300 other names" in told["message"]
    assert "--allow-different-listings" in told["hint"]
    for index in (1, 2, 3):
        code, told = job.part(index, "--allow-different-listings")
        assert code == 0, told
        assert any("part 1 saw 300 other names" in note for note in told["notes"])
    assert job.status()[0] == 1
    code, status = job.status("--allow-different-listings")
    assert (code, status["complete"], status["different_listings"]) == (0, True, None)
    none = Machines(shoal, "src", "more", "--allow-different-listings")
    assert none.part(0)[0] == 0
    code, told = none.elsewhere(shoal.directory / "empty", lambda: none.part(1))
    assert code == 1
    assert "part 1 saw 0 names" in told["message"]
    assert "--allow" not in told["hint"]
    assert none.part(2)[0] == none.part(3)[0] == none.status("--allow-different-listings")[0] == 1


def test_archives_that_one_machine_lacks_are_noticed_where_parts_have_whole_archives(shoal: Command) -> None:
    for directory, count in (("zips", 40), ("other", 39)):
        (shoal.directory / directory).mkdir()
        for number in range(count):
            with zipfile.ZipFile(shoal.directory / directory / f"a{number}.zip", "w") as archive:
                archive.writestr("entry", f"{number}")

    def part(index: int, *more: str) -> int:
        return shoal.run(
            "unzip", "zips/*.zip", "-d", "out", "--into-subdirectories", "--part", f"{index}/3", *more
        ).returncode

    job = Machines(shoal, "zips", "out")
    assert part(0) == 0
    assert job.elsewhere(shoal.directory / "other", lambda: part(1)) == 1
    assert part(2) == 1
    code, status = job.status()
    assert code == 1
    assert "part 1 saw 39 names, parts 0, 2 saw 40 names" in status["different_listings"]
    assert part(1, "--relist") == 0
    assert job.status()[0] == 0
    assert len(list((shoal.directory / "out").glob("a*/entry"))) == 40


def test_each_update_of_all_parts_is_compared_by_itself(shoal: Command) -> None:
    fill(shoal.directory / "src", NAMES[:300])
    job = Machines(shoal, "src", "out")
    assert [job.part(index)[0] for index in range(4)] == [0, 0, 0, 0]
    for count in (301, 302):
        (shoal.directory / "src" / NAMES[count - 1]).write_text("new")
        assert [job.part(index, "--update")[0] for index in range(4)] == [0, 0, 0, 0]
        assert job.status()[0] == 0
        assert job.names() == NAMES[:count]


def test_the_exit_code_of_status_says_whether_all_of_it_is_there_only_if_asked(shoal: Command) -> None:
    fill(shoal.directory / "src", NAMES[:20])
    job = Machines(shoal, "src", "out")
    assert job.part(0)[0] == 0
    assert job.status()[0] == 1, "parts have not begun"
    assert shoal.run("status", "out").returncode == 0
    (shoal.directory / "taken").mkdir()
    (shoal.directory / "taken" / NAMES[0]).write_text("of another program")
    assert shoal.run("copy", "src", "taken").returncode == 1
    for more in ((), ("--json",), ("--csv",)):
        assert shoal.run("status", "taken", "--exit-code", *more).returncode == 1
    assert shoal.run("copy", "src", "taken", "--overwrite", "always").returncode == 0
    assert shoal.run("status", "taken", "--exit-code").returncode == 0


def test_a_part_that_is_updated_alone_keeps_the_job_from_being_complete_until_the_others_are(shoal: Command) -> None:
    fill(shoal.directory / "src", NAMES)
    fill(shoal.directory / "other", NAMES[:300])
    job = Machines(shoal, "src", "out", "--update")
    job.count = 2
    assert job.part(0)[0] == 0
    code, told = job.elsewhere(shoal.directory / "other", lambda: job.part(1))
    assert (code, told["kind"]) == (1, "different-listings")
    job.elsewhere(shoal.directory / "other", lambda: job.part(1))
    code, status = job.status()
    assert (code, status["complete"]) == (1, False), "the same command again hides nothing"
    assert status["different_listings"]
    assert job.part(0)[0] == 1
    for index in (1, 0):
        job.part(index)
    assert job.status()[0] == 0, "all of them have seen the same now"
