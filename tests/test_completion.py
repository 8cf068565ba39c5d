"""`shoal completion`: what a real shell completes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Command


@pytest.fixture
def path(shoal: Command) -> str:
    """A PATH on which `shoal` is the command under test."""
    (shoal.directory / "bin").mkdir()
    command = shoal.directory / "bin/shoal"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m shoal "$@"\n')
    command.chmod(0o755)
    (shoal.directory / "photos").mkdir()
    return f"{shoal.directory / 'bin'}:{os.environ['PATH']}"


def completed(shoal: Command, path: str, line: str) -> list[str]:
    """What bash offers where a line ends."""
    words = line.split(" ")
    script = f"""
        eval "$(shoal completion bash)"
        COMP_WORDS=({" ".join(f"'{word}'" for word in words)}) COMP_CWORD={len(words) - 1}
        _shoal_completion shoal
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        cwd=shoal.directory,
        env=shoal.environment | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )
    # In a shell that is not interactive, `compopt` complains that no completion is under way.
    assert "Traceback" not in done.stderr
    return done.stdout.split()


def test_bash_completes_commands_flags_and_values(shoal: Command, path: str) -> None:
    assert completed(shoal, path, "shoal ver") == ["verify"]
    assert completed(shoal, path, "shoal copy --over") == ["--overwrite"]
    assert completed(shoal, path, "shoal copy --overwrite ") == ["never", "always"]
    assert "compare" in completed(shoal, path, "shoal bench ")
    assert completed(shoal, path, "shoal completion f") == ["fish"]


def test_paths_are_left_to_the_shell(shoal: Command, path: str) -> None:
    for line in ("shoal copy ph", "shoal unzip ph", "shoal status ph", "shoal unzip a.zip -d ph", "shoal verify ph"):
        words = line.split(" ")
        done = shoal.run(COMP_WORDS=line, COMP_CWORD=str(len(words) - 1), _SHOAL_COMPLETE="bash_complete")
        assert done.stdout.strip() in ("file,ph", "dir,ph"), line
    assert path


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_script_is_one_that_the_shell_reads(shoal: Command, shell: str) -> None:
    done = shoal.run("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (shoal.directory / "script").write_text(done.stdout)
    subprocess.run([shell, "-n", "script"], cwd=shoal.directory, check=True, timeout=60)


def test_another_shell_is_refused(shoal: Command) -> None:
    done = shoal.run("completion", "tcsh")
    assert done.returncode == 2
    assert "'bash', 'zsh', 'fish'" in done.stderr
