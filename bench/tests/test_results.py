"""Results of the lab as files: their form, which versions are read, and two of them side by side."""

from __future__ import annotations

import copy
import dataclasses
import json
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import shoal as package
import shoal_bench
from shoal_bench.results import Collection, Step, decoded, load

if TYPE_CHECKING:
    from conftest import Command, Contest, Here

SCHEMA = shoal_bench.schema()


def written(path: Path, value: object) -> Path:
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def test_what_is_written_has_the_form_of_the_schema_and_is_read_again(contest: Contest, tmp_path: Path) -> None:
    schema = pytest.importorskip("jsonschema").Draft202012Validator(SCHEMA)
    schema.check_schema(SCHEMA)
    results = contest({"shoal": [10, 11, 12], "threads-10": [5, 5, 5], "broken": []})
    several = shoal_bench.Collection([results, contest({"shoal": [1.0]}, job="copy")], {"read": "no space"})
    schema.validate(json.loads(several.to_json()))
    assert load(written(tmp_path / "one.json", results.to_json())).results == [results]
    assert load(written(tmp_path / "all.json", several.to_json())) == several
    assert shoal_bench.table(load(tmp_path / "one.json").results[0]) == shoal_bench.table(results)


@pytest.mark.parametrize("name", ["report.json", "reading.json"])
def test_results_of_an_older_shoal_are_read_and_shown(name: str) -> None:
    found = load(Path(__file__).parent.parent / "results" / name)
    assert found.results
    for results in found.results:
        assert results.row(results.base).title in shoal_bench.table(results)
    assert "Which way is the fastest here?" in shoal_bench.report(found.results[0])


def test_a_path_is_read_again_and_results_without_one_too(contest: Contest, tmp_path: Path) -> None:
    results = contest({"shoal": [10, 11]})
    own = results.rows[0]
    own.trials[-1] = dataclasses.replace(own.trials[-1], path=(Step(0.0, 2, 9.5, 100.0), Step(0.5, 4, 11.0, 110.0)))
    assert load(written(tmp_path / "new.json", results.to_json())).results == [results]
    assert [step.workers for step in own.path] == [2, 4]
    old = json.loads(results.to_json())
    for trial in old["rows"][0]["trials"]:
        del trial["path"]
    assert load(written(tmp_path / "old.json", old)).results[0].rows[0].path == ()


def test_what_a_bench_writes_has_the_form_of_the_schema(lab: Here, tmp_path: Path) -> None:
    schema = pytest.importorskip("jsonschema").Draft202012Validator(SCHEMA)
    done = lab.run("bench", "save", "--only", "limit", "--count", "3", "--trials", "2", "--results", "results.json")
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "results.json").read_text())
    schema.validate({"results": [found], "failed": {}})
    assert found["schema"] == 1
    assert found["when"].startswith("20")
    assert found["machine"]["build"] == package.BUILD_PROFILE


def places(value: Any, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, one in inner for place in ((*before, key), *places(one, (*before, key)))]


def test_the_reader_refuses_just_what_the_schema_refuses(contest: Contest) -> None:
    schema = pytest.importorskip("jsonschema").Draft202012Validator(SCHEMA)
    right = json.loads(contest({"shoal": [10, 11]}).to_json())
    seen = set()
    for place in places(right):
        wrong: Any
        for wrong in (None, True, -1, 0, 1.5, "text", [], {}, "gone"):
            found = copy.deepcopy(right)
            inner = found
            for key in place[:-1]:
                inner = inner[key]
            if wrong == "gone" and isinstance(inner, dict):
                del inner[place[-1]]
            else:
                inner[place[-1]] = wrong
            if place == ("base",) and isinstance(wrong, str) and wrong != "gone":
                continue  # that there is such a row is beyond a schema
            if place in (("rows", 0, "key"), ("base",)) and isinstance(inner.get(place[-1]), str):
                continue
            if place[0] == "machine" and (wrong == "gone" or place == ("machine",)):
                continue  # so is what must be known of it
            try:
                decoded(found)
                fault = None
            except ValueError as error:
                fault = error
            seen.add(fault is None)
            assert (fault is None) == schema.is_valid({"results": [found]}), (place, wrong, fault)
    assert seen == {True, False}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 2}, "has schema 2, this shoal reads 1"),
        ({"schema": "1"}, "has schema '1', this shoal reads 1"),
        ({"schema": True}, "has schema True"),
        ({"base": "nobody"}, "there is no row 'nobody', the base"),
        ({"rows": []}, "Expected `array` of length >= 1 - at `$.results[0].rows`"),
        ({"machine": {}}, "machine has no 'cores'"),
        ({"settings": 7}, "Expected `object`, got `int` - at `$.results[0].settings`"),
    ],
)
def test_what_is_no_result_is_refused_clearly(
    change: dict[str, Any], message: str, contest: Contest, tmp_path: Path
) -> None:
    found = json.loads(contest({"shoal": [10, 11]}).to_json()) | change
    with pytest.raises(package.ConfigError, match=r"results\.json") as caught:
        shoal_bench.load(written(tmp_path / "results.json", found))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "1", "{", '{"schema": NaN}', '{"schema": 1}', "[" * 100_000, '{"schema": 1, "results": 1}']
)
def test_a_file_that_is_something_else_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(package.ConfigError, match=r"results\.json"):
        shoal_bench.load(written(tmp_path / "results.json", text))
    with pytest.raises(package.ConfigError, match="cannot be read"):
        shoal_bench.load(tmp_path)


def test_a_number_that_no_bench_writes_is_refused(contest: Contest, tmp_path: Path) -> None:
    text = contest({"shoal": [10, 11]}).to_json()
    for number in ("1e999", "Infinity", "NaN", "1" + "0" * 400, "1e-300"):
        wrong = text.replace('"seconds": 100.0', f'"seconds": {number}')
        assert wrong != text
        with pytest.raises(package.ConfigError, match=r"results\.json"):
            shoal_bench.load(written(tmp_path / "results.json", wrong))


def test_the_same_bench_twice_agrees(contest: Contest) -> None:
    first = contest({"shoal": [100, 110, 105], "slow": [10, 11, 10.5], "broken": []})
    second = contest({"shoal": [200, 210, 190], "slow": [21, 22, 20], "late": [1, 1, 1]})
    found = shoal_bench.compare(first, second)
    assert (found.verdict, found.base, found.conditions) == ("agree", "shoal", {})
    rate, ratio = found.pairs[1].rate, found.pairs[1].ratio
    assert (rate.first, rate.second, rate.times, rate.within) == (10.5, 21, 2, False)
    assert ratio.times == statistics.median([21 / 200, 22 / 210, 20 / 190]) / 0.1
    assert found.only == {"late": 2}
    assert "agree within 10%: all 1 of them" in found.in_words()


def test_ratios_that_should_agree_and_do_not_mean_a_noisy_machine(contest: Contest) -> None:
    first = contest({"shoal": [100, 100], "slow": [10, 10], "same": [5, 5]})
    second = contest({"shoal": [100, 100, 100], "slow": [12, 12, 12], "same": [5, 5, 5]})
    found = shoal_bench.compare(first, second)
    assert (found.verdict, [pair.key for pair in found.apart]) == ("noisy", ["slow"])
    assert "too noisy" in found.in_words()
    assert "1 of 2 ratios differ by more than 10% (slow)" in found.in_words()


def test_a_difference_within_the_spread_is_said_to_be_none(contest: Contest) -> None:
    steady = contest({"shoal": [100, 100, 100], "a": [10, 10, 10], "b": [10, 10, 10]})
    other = contest(
        {"shoal": [100, 100, 100], "a": [9, 14, 14], "b": [13, 14, 15]}, machine={"shoal": "0.2.0"}, size=200
    )
    found = shoal_bench.compare(steady, other)
    assert found.conditions == {"size": ("100", "200"), "shoal": ("0.1.0", "0.2.0")}
    assert {pair.key: pair.ratio.within for pair in found.pairs} == {"shoal": True, "a": True, "b": False}
    assert found.verdict == "differ"
    assert "b: by more than the trials" in found.in_words()
    assert "a: but the trials of both overlap" in found.in_words()
    once = shoal_bench.compare(contest({"shoal": [100], "a": [10]}, size=1), contest({"shoal": [100], "a": [20]}))
    assert once.pairs[1].ratio.within is None
    assert "one trial" in once.in_words()


def test_what_cannot_be_compared_is_said(contest: Contest) -> None:
    with pytest.raises(package.ConfigError, match="the jobs differ: 'save' and 'read'"):
        shoal_bench.compare(contest({"shoal": [1]}), contest({"shoal": [1]}, job="read"))
    with pytest.raises(package.ConfigError, match="no contestant of save has figures in both"):
        shoal_bench.compare(contest({"a": [1], "b": []}), contest({"b": [1], "a": []}))


def test_bench_compare_prints_a_table_or_json(shoal: Command, contest: Contest, tmp_path: Path) -> None:
    one = contest({"shoal": [100, 110], "slow": [10, 11]})
    other = Collection([contest({"shoal": [1.0]}, job="copy"), one]).to_json()
    written(tmp_path / "a.json", one.to_json())
    written(tmp_path / "b.json", other)
    done = shoal.run("bench", "compare", "a.json", "b.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert "The ratios agree within 10%" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 120
    as_json = shoal.run("bench", "compare", "a.json", "b.json", "--json")
    found = json.loads(as_json.stdout.splitlines()[0])
    assert shoal.last_json(as_json) == {"type": "report", "ok": True, "compared": [one.job]}
    assert (found["type"], found["verdict"], found["rows"][1]["ratio"]["times"]) == ("comparison", "agree", 1)


def test_bench_compare_ends_with_2_where_it_cannot_compare(shoal: Command, contest: Contest, tmp_path: Path) -> None:
    written(tmp_path / "a.json", contest({"shoal": [1]}).to_json())
    written(tmp_path / "b.json", contest({"shoal": [1]}, job="copy").to_json())
    written(tmp_path / "c.json", {"schema": 99})
    for other, message in (("b.json", "no job in both"), ("c.json", "schema 99"), ("gone.json", "cannot be read")):
        done = shoal.run("bench", "compare", "a.json", other)
        assert (done.returncode, done.stdout) == (2, "")
        assert message in done.stderr


def test_ratios_that_another_run_may_change_are_named(contest: Contest) -> None:
    results = contest({"shoal": [100, 100, 100], "steady": [50, 51, 50], "wild": [30, 40, 50], "once": [7]})
    assert results.unsteady == ["wild"]
    assert results.doubt("once", "shoal") is None
    assert (results.doubt("steady", "shoal") or 1) < 0.1
    said = " ".join(shoal_bench.table(results).split())
    assert "too noisy: another run may change 1 of 3 ratios by over 10% (wild)" in said
