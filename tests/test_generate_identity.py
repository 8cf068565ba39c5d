"""Which calls of `shoal.generate` and `shoal.save` go on with the same job: those that would write the same."""

from __future__ import annotations

import functools
import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import shoal as package
from shoal._generate.checks import Job
from shoal._options import Resume
from trees import tree_of_raw_names


def make(number: int, year: int) -> str:
    """What `generate` is given to call."""
    return f"{year}: {number}"


class Make:
    """The same, with a state."""

    def __init__(self, year: int) -> None:
        self.year = year

    def __call__(self, number: int) -> str:
        return make(number, self.year)

    def method(self, number: int) -> str:
        return make(number, self.year)


class Base:
    """Has a class method, with the same name in all classes that inherit it."""

    YEAR = 0

    @classmethod
    def table(cls, number: int) -> str:
        return make(number, cls.YEAR)


class Year2023(Base):
    YEAR = 2023


class Year2024(Base):
    YEAR = 2024


class Wrapper:
    """What a decorator makes that is a class: it has the name of the function that it wraps."""

    def __init__(self, function: Callable[[int, int], str], year: int) -> None:
        self.function, self.year = function, year
        functools.update_wrapper(self, function)

    def __call__(self, number: int) -> str:
        return self.function(number, self.year)


class Restless(Make):
    """Is pickled differently each time."""

    def __getstate__(self) -> object:
        return {"year": self.year, "token": os.urandom(8)}


@functools.cache
def cached(number: int) -> str:
    """Has a name of its own, but is no plain function."""
    return str(number)


@pytest.mark.parametrize(
    "bound",
    [
        lambda year: {2023: Year2023, 2024: Year2024}[year].table,
        lambda year: functools.partial(Wrapper(make, year)),
        lambda year: Wrapper(make, year),
        lambda year: functools.partial(make, year=year),
        Make,
        lambda year: Make(year).method,
        lambda year: functools.partial(functools.partial(make), year=year),
    ],
    ids=["class method", "partial of wrapper", "wrapper", "partial", "instance", "method", "partial of partial"],
)
def test_other_arguments_are_not_the_same_job(tmp_path: Path, bound: Callable[[int], Callable[[int], str]]) -> None:
    def call(year: int, *, resume: Resume = "auto") -> package.Report:
        return package.generate(
            bound(year), range(5), tmp_path / "out", name="{}.txt", workers=1, resume=resume, on_error="record"
        )

    assert call(2023).written == 5
    assert call(2023).completed_before
    with pytest.raises(package.JournalError, match="arguments"):
        call(2024)
    assert call(2024, resume="restart").written == 5
    assert tree_of_raw_names(tmp_path / "out") == {b"%d.txt" % number: b"2024: %d" % number for number in range(5)}


def test_what_is_pickled_differently_each_time_is_refused(tmp_path: Path) -> None:
    with pytest.raises(package.ConfigError, match=r"Restless.* is pickled differently each time") as caught:
        package.generate(Restless(2023), range(5), tmp_path / "out", name="{}.txt")
    assert "a name of its own" in (caught.value.hint or "")
    assert not (tmp_path / "out").exists()


def test_a_set_is_pickled_in_another_order_and_may_be_an_argument() -> None:
    assert pickle.dumps(pickle.loads(pickle.dumps({7, 15}))) != pickle.dumps({7, 15})
    assert Job(functools.partial(print, {7, 15}), [], "{}").arguments != "none"


def test_the_number_and_the_text_of_it_are_not_the_same_id(tmp_path: Path) -> None:
    def call(ids: list[int] | list[str]) -> package.Report:
        return package.generate(str, ids, tmp_path / "out", name="{}.txt", workers=1)

    assert call([1, 2]).written == 2
    report = call(["#1", "#2"])
    assert (report.written, report.completed_before) == (2, None)


def test_the_digests_of_ordinary_jobs_stay_what_they_were() -> None:
    def recorded(function: Callable[[Any], object], ids: list[int] | list[str]) -> tuple[str, str]:
        job = Job(function, ids, "{}")
        return job.identity.rpartition(" ")[2][:8], job.arguments[:8]

    assert recorded(cached, [1, 2]) == ("53df4212", "none")
    assert recorded(Base.table, ["a", "#b", "##"]) == ("da81333a", "none")
    assert recorded(len, []) == ("cae66941", "none")
    assert recorded(Make(2023), []) == ("cae66941", "f59a321e")
    assert recorded(Make(2023).method, []) == ("cae66941", "f59a321e")
    assert recorded(functools.partial(make, year=2023), []) == ("cae66941", "39a9082a")


class StopError(Exception):
    """A run was stopped on purpose."""


def test_a_save_that_was_stopped_does_not_go_on_with_other_options_of_its_files(tmp_path: Path) -> None:
    def items(last: int) -> Iterator[tuple[str, bytes]]:
        for number in range(100):
            if number == last:
                raise StopError
            yield f"{number}.csv", b"x"

    with pytest.raises(StopError):
        package.save(items(20), tmp_path / "out", source_id="s")
    with pytest.raises(package.JournalError, match="header: true -> false"):
        package.save(items(100), tmp_path / "out", source_id="s", header=False)
    with pytest.raises(package.JournalError, match="final_newline: true -> false"):
        package.save(items(100), tmp_path / "out", source_id="s", final_newline=False)
    assert package.save(items(100), tmp_path / "out", source_id="s").total.written == 100


def test_a_generated_job_does_not_go_on_with_other_options_of_its_files(tmp_path: Path) -> None:
    function = functools.partial(make, year=2023)
    assert package.generate(function, range(3), tmp_path / "out", name="{}", workers=1).ok
    with pytest.raises(package.JournalError, match="header: true -> false"):
        package.generate(function, range(3), tmp_path / "out", name="{}", workers=1, header=False)
