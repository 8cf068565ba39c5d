"""Results and descriptions of sources are values: named fields that do not change, and no tuples."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any

import pytest

import shoal as package
from shoal import _report, _source_types, _spooled
from shoal._value import Value

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COUNTS: dict[str, Any] = {"listed": 3, "written": 2, "skipped": 0, "failed": 1, "unfinished": 0, "bytes": 20}


@pytest.fixture
def results(tmp_path: Path) -> list[Value]:
    """One of every kind that a user is handed."""
    for name in "abc":
        (tmp_path / "tree" / name).mkdir(parents=True)
        (tmp_path / "tree" / name / name).write_text(name)
    seen: list[package.Progress] = []
    report = package.copy(tmp_path / "tree", tmp_path / "out", progress=seen.append)
    with package.serve(tmp_path / "tree") as service:
        stats = service.stats
    status = package.status(tmp_path / "out")
    appended = package.Records.append(tmp_path / "records", [(1,)], "<Q")
    sources = [package.list_get("http://localhost"), package.files("a"), package.archives("a.zip")]
    run = status.runs[0]
    return [report, report.run, *seen[:1], stats, status, run, *run.samples[:1], appended, *sources]


def test_a_result_is_no_tuple(results: list[Value]) -> None:
    for result in results:
        assert "%s" % result == repr(result)  # noqa: UP031  # a tuple would be taken for several arguments
        assert not hasattr(result, "count")
        uses: list[Callable[[Any], object]] = [iter, len, tuple]
        for use in uses:
            with pytest.raises(TypeError):
                use(result)


def test_a_result_cannot_be_changed(results: list[Value]) -> None:
    for result in results:
        name = next(iter(vars(result)))
        before = getattr(result, name)
        with pytest.raises(AttributeError, match=f"{type(result).__name__} cannot be changed: {name}"):
            setattr(result, name, None)
        with pytest.raises(AttributeError, match="cannot be changed"):
            delattr(result, name)
        with pytest.raises(AttributeError, match="cannot be changed"):
            setattr(result, "other", 1)  # noqa: B010
        assert getattr(result, name) == before


def test_results_survive_pickling_and_are_equal_by_value(results: list[Value]) -> None:
    for result in results:
        other = pickle.loads(pickle.dumps(result))
        assert other == result
        assert hash(other) == hash(result)
        assert repr(other) == repr(result)
    assert len(set(results)) == len(results)


def test_a_list_of_urls_survives_pickling_up_to_64_mib(monkeypatch: pytest.MonkeyPatch) -> None:
    items: list[str | tuple[str, str]] = ["http://h/a", ("named é", "http://h/b"), ("\udcff", "http://h/c")]
    urls = package.urls(items)
    other = pickle.loads(pickle.dumps(urls))
    assert (other, hash(other)) == (urls, hash(urls))
    assert urls != package.urls(items[:2])
    assert [item.name for item in package.list_objects(pickle.loads(pickle.dumps(package.urls(items[:2]))))] == [
        "a",
        "named é",
    ]
    monkeypatch.setattr(_spooled, "PICKLED_MAX", 30)
    with pytest.raises(TypeError, match=r"cannot be pickled, at most 30 bytes can: write it to a file"):
        pickle.dumps(urls)


def test_values_of_two_kinds_are_never_equal() -> None:
    class Other(_report.Counts):
        """The same fields."""

    assert _report.Counts(**COUNTS) == _report.Counts(**COUNTS)
    assert _report.Counts(**COUNTS) != _report.Counts(**{**COUNTS, "bytes": 21})
    assert _report.Counts(**COUNTS) != Other.__new__(Other)
    assert _report.Counts(**COUNTS) != tuple(COUNTS.values())
    assert package.files("a") != package.files("a", links="follow")


def test_every_field_has_to_be_there_and_no_other() -> None:
    with pytest.raises(TypeError, match="bytes"):
        _report.Counts(**{name: value for name, value in COUNTS.items() if name != "bytes"})
    with pytest.raises(TypeError, match="more"):
        _report.Counts(**{**COUNTS, "more": 1})


def test_a_report_shows_what_matters_first_and_shortly(results: list[Value]) -> None:
    report = results[0]
    assert repr(report).startswith("Report(ok=True, written=3, failed=0, skipped=0, unfinished=0, bytes=3, seconds=")
    assert len(repr(report)) < 120
    assert repr(_report.Counts(**COUNTS)) == "Counts(listed=3, written=2, skipped=0, failed=1, unfinished=0, bytes=20)"


def test_a_report_is_a_dict_as_json_has_it(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a").write_text("a")
    for finished in (False, True):
        report = package.copy(tmp_path / "tree", tmp_path / "out", workers=2, resume="once")
        found = json.loads(json.dumps(report.to_dict()))
        assert list(found) == ["ok", *report._fields]
        assert found["run"] == {name: getattr(report.run, name) for name in COUNTS}
        assert (found["failures"], found["notes"]) == ([], list(report.notes))
        assert [step["workers"] for step in found["concurrency"]] == [step.workers for step in report.concurrency]
        assert found["completed_before"] == (report.completed_before.isoformat() if report.completed_before else None)
        assert bool(found["completed_before"]) is finished


def test_no_text_form_of_a_service_has_a_secret() -> None:
    service = package.list_get("http://user:pass@host/x?token=s3cret", headers={"Authorization": "s3cret"})
    for text in (repr(service), f"{service}", "%s" % service, repr([service])):  # noqa: UP031
        assert "s3cret" not in text
        assert "pass" not in text
    assert service.headers == (("Authorization", "s3cret"),)


def test_every_public_result_is_a_value() -> None:
    named = ("Report", "Counts", "Failure", "Progress", "Status", "RunStatus", "Owner", "Sample", "Skipped")
    for name in (*named, "ServerStats", "Appended", "ListGet", "Files", "Archives"):
        assert issubclass(getattr(package, name), Value), name
    assert _source_types.ListGet is package.ListGet
