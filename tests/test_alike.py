"""A run ends if its first hundred objects fail alike: an option or a function is wrong, and not the objects."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import shoal as package
from conftest import Command

pytestmark = pytest.mark.disk

WRONG = ("--get-path", "/wrong/{name}")


def test_a_service_whose_objects_are_all_missing_ends_the_run_and_names_the_option(shoal: Command) -> None:
    with package.serve(synthetic="5000:10") as service:
        for _ in range(2):  # nothing has succeeded in any session
            done = shoal.run("copy", service.url, "out", *WRONG)
            assert done.returncode == 3
            assert (
                "nothing has succeeded, and 100 objects failed alike: listed, but it no longer exists (404)"
                in done.stderr
            )
            assert "hint: is --get-path right?; --keep-going continues" in done.stderr
            assert done.stderr.count("404") == 1, "said once"
        assert shoal.run("copy", service.url, "out").returncode == 0, "another address, and so another run"


@pytest.mark.parametrize("how", [["--keep-going"], ["--max-failures", "9000"], ["--on-error", "record"]])
def test_all_failures_are_recorded_on_request(shoal: Command, how: list[str]) -> None:
    with package.serve(synthetic="500:10") as service:
        done = shoal.run("copy", service.url, "out", *WRONG, *how)
    assert done.returncode == 1
    assert "500 objects failed" in done.stderr
    text = shoal.run("status", "out", "--failures", "all").stdout
    assert (text.count("(404)"), text.count(": the same")) == (3, 497), "each has its line, the reason is said once"
    assert shoal.run("status", "out", "--csv").stdout.count("(404)") == 500


def test_objects_that_are_gone_and_may_be_are_a_note(shoal: Command) -> None:
    with package.serve(synthetic="500:10") as service:
        done = shoal.run("copy", service.url, "out", *WRONG, "--ignore-vanished")
    assert done.returncode == 0
    assert "note: all 500 objects are gone from the source: is its address right?" in done.stderr


def raises_later(number: int) -> str:
    if number < 1_000:
        return "made"
    time.sleep(1.5 if number == 1_000 else 0)  # the others are committed meanwhile
    raise ValueError(f"no {number}")


def test_one_success_in_any_session_lets_a_run_go_on(tmp_path: Path) -> None:
    made: dict[str, Any] = {"name": "{:05d}.txt", "workers": 1}
    with pytest.raises(package.RunError, match="more than 0 objects failed"):
        package.generate(raises_later, range(1_300), tmp_path / "out", max_failures=0, **made)
    with pytest.raises(package.ObjectsFailedError, match="300 of 1,300"):
        package.generate(raises_later, range(1_300), tmp_path / "out", **made)


def raises(number: int) -> Any:
    raise ValueError(f"no {number}")


def test_a_function_that_raises_each_time_ends_the_run(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(package.RunError, match=r"100 objects failed alike: .*ValueError") as caught:
        package.generate(raises, range(5_000), tmp_path / "out", name="{:05d}.txt")
    assert caught.value.kind == "too-many-failures"
    assert time.monotonic() - began < 60
    with pytest.raises(package.ObjectsFailedError):
        package.generate(raises, range(150), tmp_path / "all", name="{:05d}.txt", keep_going=True)


def test_items_that_are_all_refused_end_the_run(tmp_path: Path) -> None:
    with pytest.raises(package.RunError, match="unsafe name"):
        package.save(((f"../{number}.txt", "x") for number in range(1_000)), tmp_path / "out")


def test_files_and_archives_never_end_a_run_so(tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    source.mkdir()
    for number in range(300):
        (source / str(number)).write_text("x")
        (out / str(number)).mkdir(parents=True)  # in the way
    with pytest.raises(package.ObjectsFailedError, match="300 of 300"):
        package.copy(source, out)


def test_retries_of_failures_go_through_all_of_them(tmp_path: Path) -> None:
    wrong: dict[str, Any] = {"get_path": "/wrong/{name}"}
    with package.serve(synthetic="300:10") as service:
        source = package.list_get(service.url, **wrong)
        assert package.copy(source, tmp_path / "out", on_error="record").failed == 300
        for resume in ("auto", "failed"):
            report = package.copy(source, tmp_path / "out", on_error="record", keep_going=False, resume=resume)
            assert (report.failed, report.unfinished) == (300, 0)


def test_a_list_of_one_host_ends_and_one_of_several_goes_on(tmp_path: Path) -> None:
    with package.serve(synthetic="10:10") as one, package.serve(synthetic="10:10") as other:
        urls = [f"{one.url}/get/none-{number}" for number in range(600)]
        with pytest.raises(package.RunError, match=r"failed alike: .*the server has no such object"):
            package.copy(package.urls(urls), tmp_path / "one")
        urls += [f"{other.url}/get/none-{number}" for number in range(600)]
        with pytest.raises(package.ObjectsFailedError, match="1,200 of 1,200"):
            package.copy(package.urls(urls, name="{host}/{path}"), tmp_path / "two")


def test_a_function_that_raises_each_time_is_shown_with_its_traceback(shoal: Command) -> None:
    (shoal.directory / "broken.py").write_text("def f(number):\n    return {}['missing']\n")
    done = shoal.run("generate", "broken:f", "1000", "out", "--name", "{}.txt")
    assert done.returncode == 3
    assert "KeyError: 'missing'" in done.stderr
    assert "return {}['missing']" in done.stderr
