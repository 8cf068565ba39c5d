"""A call that could not do all of its work says so: `on_error` of every function, and what its exceptions carry."""

from __future__ import annotations

import pickle
import zipfile
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

import shoal as package
from shoal import _errors

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CLASSES = [value for name, value in vars(_errors).items() if name.endswith("Error") and not name.startswith("_")]


def odd(number: int) -> str:
    """A function for `generate`, whose results are missing for some ids."""
    if number % 2:
        raise ValueError("odd")
    return f"{number}"


def copy(place: Path, **options: Any) -> package.Report:
    if not (place / "tree").exists():
        (place / "tree").mkdir()
        for name in "abcd":
            (place / "tree" / name).write_text(name)
        for name in "bd":
            (place / "out" / name).mkdir(parents=True)  # in the way
    return package.copy(place / "tree", place / "out", **options)


def unzip(place: Path, **options: Any) -> package.Report:
    if not (place / "a.zip").exists():
        with zipfile.ZipFile(place / "a.zip", "w") as archive:
            for name in "abcd":
                archive.writestr(name, name)
        for name in "bd":
            (place / "out" / name).mkdir(parents=True)
    return package.unzip(place / "a.zip", place / "out", **options)


def save(place: Path, **options: Any) -> package.Report:
    items = [("a", b"a"), ("../b", b"b"), ("c", b"c"), ("../d", b"d")]
    return package.save(items, place / "out", source_id="items", **options)


def generate(place: Path, **options: Any) -> package.Report:
    return package.generate(odd, range(4), place / "out", name="{}", workers=1, **options)


RUNS: dict[str, Callable[..., package.Report]] = {"copy": copy, "unzip": unzip, "save": save, "generate": generate}


@pytest.mark.parametrize("run", RUNS)
def test_failed_objects_raise_when_all_the_rest_is_done_and_once_more_while_they_stand(
    tmp_path: Path, run: str
) -> None:
    for _ in range(2):
        with pytest.raises(package.ObjectsFailedError, match=r"2 of 4 objects failed, first ") as raised:
            RUNS[run](tmp_path)
        error = raised.value
        assert error.report is not None
        assert (error.report.failed, error.report.total.listed, error.report.complete) == (2, 4, True)
        assert [failure.name for failure in error.failures] == [failure.name for failure in error.report.failures]
        assert isinstance(error.__cause__, package.ObjectError)
        assert error.__cause__.name == error.failures[0].name
        assert error.kind == "objects-failed"
        copied = pickle.loads(pickle.dumps(error))
        assert (str(copied), copied.report, copied.failures) == (str(error), error.report, error.failures)
    assert sum(path.is_file() for path in (tmp_path / "out").iterdir()) == 2


@pytest.mark.parametrize("run", RUNS)
def test_with_record_the_report_says_it(tmp_path: Path, run: str) -> None:
    report = RUNS[run](tmp_path, on_error="record")
    assert (report.ok, report.failed, report.written) == (False, 2, 2)


@pytest.mark.parametrize("run", RUNS)
def test_with_stop_the_first_failure_is_raised_and_so_is_one_that_stands(tmp_path: Path, run: str) -> None:
    with pytest.raises(package.ObjectError) as raised:
        RUNS[run](tmp_path, on_error="stop")
    assert raised.value.report is not None
    assert not raised.value.report.ok
    RUNS[run](tmp_path, on_error="record")
    with pytest.raises(package.ObjectError):
        RUNS[run](tmp_path, on_error="stop")


def test_a_run_without_failures_raises_nothing(tmp_path: Path) -> None:
    for name in ("raise", "record", "stop"):
        assert package.save([("a", b"a")], tmp_path / name, on_error=name).ok


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    for number in range(20):
        (tmp_path / f"{number}").write_text(f"{number}")
    return [tmp_path / "gone-1", *(tmp_path / f"{number}" for number in range(20)), tmp_path / "gone-2"]


def test_a_loop_raises_when_it_has_given_all_the_others(paths: list[Path]) -> None:
    reader = package.read(paths)
    found: list[str] = []
    with pytest.raises(package.ObjectsFailedError, match="2 of 22 objects failed") as raised:
        found.extend(obj.name for obj in reader)
    assert len(found) == 20
    assert raised.value.report == reader.report
    assert isinstance(raised.value.__cause__, FileNotFoundError)
    assert next(reader, None) is None, "it is raised once"


def test_a_loop_that_is_left_early_raises_nothing(paths: list[Path]) -> None:
    for obj in package.read(paths):
        assert obj.size
        break
    with package.read(paths) as reader:
        next(reader)
    with package.read(paths):
        pass


def test_batches_and_streams_tell_of_failures_at_their_end(paths: list[Path]) -> None:
    rows: list[int] = []
    with pytest.raises(package.ObjectsFailedError, match="2 of 22"):
        rows.extend(len(batch) for batch in package.read(paths).batches())
    assert sum(rows) == 20
    reader = package.read(paths)
    with pytest.raises(Exception, match=r"2 of 22 objects failed, first .*gone"):
        pa.table(reader.batches())
    assert pa.table(package.read(paths, on_error="record").batches()).num_rows == 20


@pytest.mark.parametrize("name", [one.__name__ for one in CLASSES])
def test_an_exception_can_be_made_again_from_its_text_alone(name: str) -> None:
    error = getattr(_errors, name)("what failed", hint="do this")
    again = type(error)(str(error))
    assert str(again) == "what failed\nhint: do this"
    assert again.report is None
    assert str(pickle.loads(pickle.dumps(again))) == str(again)


def test_what_is_named_and_missing_is_a_file_not_found_error(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    calls: list[Callable[[], object]] = [
        lambda: package.read(missing),
        lambda: package.read(f"{missing}/*.jpg"),
        lambda: package.copy(missing, tmp_path / "out"),
        lambda: package.unzip(f"{missing}.zip", tmp_path / "out"),
        lambda: package.unzip(f"{missing}*.zip", tmp_path / "out"),
        lambda: package.status(missing),
        lambda: package.serve(missing),
        lambda: package.Records(missing, "<Q"),
        lambda: package.Records(f"{missing}*", "<Q"),
    ]
    for call in calls:
        with pytest.raises(FileNotFoundError, match="missing") as raised:
            call()
        assert isinstance(raised.value, package.NotFoundError)
        assert raised.value.errno == 2


def test_errors_of_the_system_have_its_number_and_the_name() -> None:
    error = package.PermissionDeniedError("refused", name="x")
    assert isinstance(error, PermissionError)
    assert (error.errno, error.filename) == (13, "x")
    assert (package.NotFoundError("gone").errno, package.DestinationFullError("full").errno) == (2, 28)


def test_a_list_of_urls_is_refused_with_what_works(tmp_path: Path) -> None:
    with pytest.raises(package.ConfigError, match=r"a URL where paths are expected: 'http://host/a\.jpg'") as raised:
        package.copy(["http://user:pass@host/a.jpg?token=x", "http://host/b.jpg"], tmp_path / "out")
    assert "shoal.urls" in str(raised.value.hint)


def test_an_option_of_a_source_points_to_where_it_belongs(tmp_path: Path) -> None:
    for name, where in (("list_path", "list_get"), ("links", "files"), ("max_ratio", "archives")):
        given: dict[str, Any] = {name: 1}
        with pytest.raises(TypeError, match=rf"shoal\.{where}\(…, {name}=…\)"):
            package.copy("http://localhost:1", tmp_path / "out", **given)
        with pytest.raises(TypeError, match=rf"shoal\.{where}\(…, {name}=…\)"):
            package.read("http://localhost:1", **given)
    other: dict[str, Any] = {"no_such": 1}
    with pytest.raises(TypeError, match="no_such"):
        package.copy("a", "b", **other)


def test_records_without_a_format_say_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "i.bin").write_bytes(bytes(8))
    with pytest.raises(package.ConfigError, match="`format` is missing"):
        package.Records(tmp_path / "i.bin")
