"""The public names are the ones that are listed, and importing them is quick and does nothing."""

from __future__ import annotations

import importlib.metadata
import json
from types import ModuleType
from typing import TYPE_CHECKING

import shoal as package

if TYPE_CHECKING:
    from conftest import Command, Interpreter


def test_all_lists_the_public_names() -> None:
    public = {
        name for name, value in vars(package).items() if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert public | {"__version__"} == set(package.__all__)
    assert list(package.__all__) == sorted(package.__all__, key=lambda name: (not name.isupper(), name))


def test_public_things_are_documented() -> None:
    for name in package.__all__:
        if name != "__version__":
            assert getattr(package, name).__doc__, name


def test_the_version_is_the_packages() -> None:
    assert package.__version__ == importlib.metadata.version("shoal")


def test_the_command_says_its_version(shoal: Command) -> None:
    done = shoal.run("--version")
    assert (done.returncode, done.stdout) == (0, f"shoal {package.__version__}\n")


def test_the_import_takes_no_third_package_and_starts_no_thread(interpreter: Interpreter) -> None:
    script = """
        import sys, threading, os, json
        before = set(sys.modules)
        import shoal
        tops = {name.split(".")[0] for name in set(sys.modules) - before}
        threads = len(os.listdir("/proc/self/task"))
        print(json.dumps([sorted(tops - sys.stdlib_module_names), threads]))
    """
    modules, threads = json.loads(interpreter.run(script).stdout)
    assert modules == ["shoal"]
    assert threads == 1


def seconds(interpreter: Interpreter, script: str) -> float:
    """Processor time of a script and its children: the best of five after one that compiles."""
    timed = f"""
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
taken = lambda: sum(sum(getrusage(whose)[:2]) for whose in (RUSAGE_SELF, RUSAGE_CHILDREN))
began = taken()
{script}
print(taken() - began)
"""
    runs = [
        interpreter.run(timed, PYTHONPYCACHEPREFIX=str(interpreter.directory), PYTHONDONTWRITEBYTECODE="")
        for _ in range(6)
    ]
    return min(float(done.stdout.splitlines()[-1]) for done in runs)


def test_the_import_takes_less_than_50_ms(interpreter: Interpreter) -> None:
    assert seconds(interpreter, "import shoal") < 0.05


def test_help_takes_less_than_150_ms(interpreter: Interpreter) -> None:
    script = "import subprocess, sys; subprocess.run([sys.executable, '-m', 'shoal', '--help'], check=True)"
    assert seconds(interpreter, script) < 0.15


def test_help_loads_no_command_and_draws_nothing(interpreter: Interpreter) -> None:
    script = "import sys, shoal.cli; shoal.cli.run(['--help']); print(*sys.modules)"
    loaded = interpreter.run(script).stdout.splitlines()[-1].split()
    assert "click" in loaded
    assert not {"rich", "shoal.cli.copy", "shoal.cli.serve", "shoal.cli.status"} & set(loaded)
