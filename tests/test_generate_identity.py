"""Which calls of `shoal.generate` and `shoal.save` go on with the same job: those that would write the same."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import shoal as package
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


@pytest.mark.parametrize(
    "bound",
    [
        lambda year: functools.partial(make, year=year),
        Make,
        lambda year: Make(year).method,
        lambda year: functools.partial(functools.partial(make), year=year),
    ],
    ids=["partial", "instance", "method", "partial of partial"],
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
