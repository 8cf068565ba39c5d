"""The exceptions: the tree, the class for each kind of error, what they say, and the exit codes."""

from __future__ import annotations

import copy
import errno
import inspect
import pickle
import re
from typing import TYPE_CHECKING

import pytest

import shoal as package
from shoal import _errors, _shoal
from shoal.cli import _exit

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Command, Interpreter, Service

CLASSES = {
    name: value
    for name, value in vars(_errors).items()
    if inspect.isclass(value) and issubclass(value, _errors.ShoalError) and not name.startswith("_")
}


def test_the_tree_is_the_one_that_is_drawn() -> None:
    drawn = re.findall(r"^ +[│├└─ ]*(\w+Error) +[^(\n]*(?:\(also an? (\w+))?", _errors.__doc__ or "", re.MULTILINE)
    assert [name for name, _ in drawn] == list(CLASSES)
    for name, also in drawn:
        if also:
            assert issubclass(CLASSES[name], getattr(__builtins__, also, None) or __builtins__[also])  # type: ignore[index]


def test_every_error_is_public() -> None:
    assert set(CLASSES) <= set(package.__all__)


def test_every_kind_of_error_has_a_class_and_every_class_a_kind() -> None:
    kinds = _shoal.kinds()
    named = {class_name for _, class_name in kinds.values()}
    assert named - {"KeyboardInterrupt"} <= set(CLASSES)
    # ShoalError itself is only a base; ObjectsFailedError stands for several of any kind.
    assert set(CLASSES) - {"ShoalError", "ObjectsFailedError"} <= named
    for follows, class_name in kinds.values():
        assert follows in {"retry", "object", "run"}
        if class_name in CLASSES and not issubclass(CLASSES[class_name], _errors.ConfigError):
            base = _errors.RunError if follows == "run" else _errors.ObjectError
            assert issubclass(CLASSES[class_name], base)


def test_the_kinds_that_users_handle_have_their_own_class() -> None:
    kinds = {kind: class_name for kind, (_, class_name) in _shoal.kinds().items()}
    assert kinds["vanished"] == "NotFoundError"
    assert kinds["forbidden"] == kinds["denied"] == "PermissionDeniedError"
    assert kinds["unsafe-name"] == "UnsafeNameError"
    assert kinds["integrity"] == "IntegrityError"
    assert kinds["destination-full"] == "DestinationFullError"
    assert kinds["credentials"] == "CredentialsError"
    assert kinds["journal-locked"] == "JournalLockedError"
    assert kinds["interrupted"] == "KeyboardInterrupt"


@pytest.mark.parametrize("name", CLASSES)
def test_an_error_says_its_line_and_its_hint_and_survives_pickling(name: str) -> None:
    error = CLASSES[name]("what failed", kind="some-kind", name="n", hint="do this")

    assert str(error) == "what failed\nhint: do this"
    copied = pickle.loads(pickle.dumps(error))
    assert (str(copied), copied.kind, copied.name, copied.hint) == (str(error), "some-kind", "n", "do this")
    assert str(CLASSES[name]("what failed")) == "what failed"


def test_a_full_destination_keeps_the_number_of_the_system() -> None:
    assert _errors.DestinationFullError("full").errno == errno.ENOSPC
    assert _errors.DestinationFullError("full", errno=errno.EDQUOT).errno == errno.EDQUOT


def test_a_source_of_unknown_form_is_a_config_error_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(package.ConfigError) as caught:
        package.copy("gopher://x", tmp_path / "out")

    assert caught.value.kind == "config"
    assert caught.value.hint
    assert "gopher://x" in str(caught.value)


def test_an_unreachable_source_ends_the_run_with_code_3(shoal: Command) -> None:
    done = shoal.run("copy", "http://127.0.0.1:1", "out", "--retry-timeout", "0.5", "--json")

    assert done.returncode == 3
    assert shoal.last_json(done)["kind"] == "unreachable"
    assert "127.0.0.1:1" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_second_run_on_one_destination_is_refused_with_the_owner(shoal: Command, service: Service) -> None:
    url = service(synthetic="1000000:100").url
    reached: list[package.JournalLockedError] = []

    def second(_: package.Progress) -> None:
        with pytest.raises(package.JournalLockedError) as caught:
            package.copy(url, shoal.directory / "out")
        reached.append(caught.value)
        done = shoal.run("copy", url, "out")
        assert done.returncode == 3
        assert "pid " in done.stderr
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        package.copy(url, shoal.directory / "out", limit_rate="100kB", progress=second)
    assert reached[0].kind == "journal-locked"


def test_other_options_are_refused_with_the_difference_unless_all_is_listed_anew(
    service: Service, tmp_path: Path
) -> None:
    url = service(synthetic="10:10").url
    package.copy(url, tmp_path / "out")

    with pytest.raises(package.JournalError) as caught:
        package.copy(url, tmp_path / "out", include="*1")

    assert caught.value.kind == "journal-mismatch"
    assert "include" in str(caught.value)
    assert "update" in str(caught.value)
    assert package.copy(url, tmp_path / "out", include="*1", resume="restart").complete


def test_too_many_failures_stop_the_run(service: Service, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for number in range(50):
        (tmp_path / "out" / f"object-{number:09}").write_text("mine")

    with pytest.raises(package.RunError) as caught:
        package.copy(service(synthetic="100:10").url, tmp_path / "out", max_failures=3, on_error="record")

    assert caught.value.kind == "too-many-failures"
    report = caught.value.report
    assert report is not None
    assert not report.complete
    run = report.run
    assert run.listed == run.written + run.skipped + run.failed + run.unfinished


def test_exit_codes_are_the_documented_ones() -> None:
    table = dict(re.findall(r"^\| (\d+) \| (.+) \|$", _exit.__doc__ or "", re.MULTILINE))
    codes = {value for name, value in vars(_exit).items() if name.isupper() and isinstance(value, int)}
    assert {int(code) for code in table} == codes == {0, 1, 2, 3, 130, 143}
    assert _exit.code_of(package.ConfigError("x")) == 2
    assert _exit.code_of(package.RunError("x")) == 3
    assert _exit.code_of(package.ObjectError("x")) == 3


def test_a_defect_is_said_to_be_one_and_is_no_success(interpreter: Interpreter) -> None:
    script = """
        import sys, shoal
        from shoal.cli import main
        shoal.copy = lambda *_, **__: 1 / 0
        sys.argv = ["shoal", "copy", "http://127.0.0.1:1", "out"]
        main()
    """
    done = interpreter.run(script)

    assert done.returncode == 3
    assert "ZeroDivisionError" in done.stderr
    assert "error: this is a bug in shoal" in done.stderr


def test_a_full_destination_keeps_its_number_when_it_is_pickled() -> None:
    error = package.DestinationFullError("full", name="out", hint="free some", errno=errno.EDQUOT)
    for copied in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert (copied.errno, copied.name, str(copied)) == (errno.EDQUOT, "out", str(error))


def test_the_lab_that_is_not_installed_is_named_with_the_command_that_installs_it(interpreter: Interpreter) -> None:
    script = """
    import sys
    sys.modules["shoal_bench"] = None
    from shoal.cli import main
    sys.argv = ["shoal", *sys.argv[1:]]
    main()
    """
    done = interpreter.run(script, "bench", "copy", "--count", "5")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: shoal bench needs the package shoal-bench, which is not installed\n"
        f"hint: pip install shoal-bench=={package.__version__}\n"
    )
    listed = interpreter.run(script, "bench", "--help")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "compare  Compare two results." in listed.stdout
    assert f"pip install shoal-bench=={package.__version__}" in listed.stdout
