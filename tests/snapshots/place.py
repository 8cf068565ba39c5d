"""The directory and the services that the command lines of the snapshots work on, and their output with placeholders.

Not here: the command lines (`runs.py`, `errors.py`), and the comparison (`test_snapshots.py`).
"""

from __future__ import annotations

import json
import re
import shlex
import struct
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import shoal as package
from conftest import PATIENCE, Command, Service
from servers.fault_server import FaultServer
from servers.fixtures import MakeServer

# One width and no colours, whatever terminal the tests run in.
ENVIRONMENT = {"COLUMNS": "100", "NO_COLOR": "1"}

# What differs from run to run or from machine to machine; inside JSON what stands for it is JSON too. Counts and bytes
# stay where the command line fixes them.
FILTERS = [
    (r"127\.0\.0\.1:\d+", "127.0.0.1:<port>"),
    (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?([+-]\d\d:\d\d)?", "<date>"),
    (r", in [\d.:]+( s)?: [\d,]+/s, [\d.]+ (bytes?|kB|MB|GB)/s", ", in <seconds> s: <rate>/s, <rate>/s"),
    (r"after \d+ attempts in [\d.]+ s", "after <number> attempts in <seconds> s"),
    (r"asks to wait \d+ s", "asks to wait <seconds> s"),
    (r"stopped after [\d.]+ s: [\d,]+ written", "stopped after <seconds> s: <number> written"),
    (r"until then: [\d,]+ written, \d+ failed", "until then: <number> written, <number> failed"),
    (r"failed, [\d,]+ unfinished", "failed, <number> unfinished"),
    (r'pid \d+ on (host )?"?[^ "\n]+"?', r"pid <pid> on \1<host>"),
    (r"\(\d+ are open\)", "(<number> are open)"),
    (r"\bshoal \d+\.\d+\.\d+\S*", "shoal <version>"),
    (r'"seconds": [\d.e-]+', '"seconds": "<seconds>"'),
    (r'"(objects|bytes)_per_second": [\d.e+-]+', r'"\1_per_second": "<rate>"'),
    (r'"samples": \[\[.*?\]\]', '"samples": "<samples>"'),
]


def filtered(text: str, directory: Path) -> str:
    """Puts placeholders for what differs."""
    text = text.replace(str(directory), "<dir>")
    for pattern, placeholder in FILTERS:
        text = re.sub(pattern, placeholder, text)
    return text


def indented(text: str) -> str:
    """Writes each line of JSON on many, so that a diff shows the value that changed."""
    lines = (json.dumps(json.loads(line), indent=2) if line.startswith("{") else line for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines)


class Place:
    """A directory with something for every command to work on, and the command run in it."""

    def __init__(self, shoal: Command, service: Service, make_server: MakeServer) -> None:
        self.shoal = shoal
        self.service = service
        self.directory = shoal.directory
        self.tree = self.directory / "tree"
        self.out = self.directory / "out"
        self._make_server = make_server
        shoal.environment |= ENVIRONMENT
        (self.tree / "sub").mkdir(parents=True)
        for name, size in {"a.txt": 10, "b.txt": 200, "sub/c.bin": 3000}.items():
            (self.tree / name).write_bytes(bytes(size))
        for archive, entries in {"a.zip": {"one.txt": 100, "two/three.txt": 50}, "b.zip": {"one.txt": 7}}.items():
            with zipfile.ZipFile(self.directory / archive, "w") as file:
                for name, size in entries.items():
                    file.writestr(name, bytes(size))
        (self.directory / "cut.zip").write_bytes((self.directory / "a.zip").read_bytes()[:150])
        records = (struct.pack("<QII", number * 1000, number % 3, number) for number in range(20))
        (self.directory / "index.bin").write_bytes(b"".join(records))
        (self.directory / "make.py").write_text(
            "def text(number):\n    return str(number)\n\n\n"
            "def odd(number):\n    if number % 2 == 0:\n        raise ValueError('even')\n    return str(number)\n"
        )

    def run(self, line: str, *, under: tuple[str, ...] = (), **extra: str) -> str:
        """Runs a command line; returns what a reviewer reads."""
        command = self.shoal.under(*under) if under else self.shoal
        done = command.run(*shlex.split(line), timeout=PATIENCE, **ENVIRONMENT, **extra)
        return self.shown(line, done.returncode, done.stdout, done.stderr)

    def start(self, line: str, **how: Any) -> subprocess.Popen[str]:
        """Starts a command line that a signal is to end."""
        return self.shoal.start(*shlex.split(line), **how)

    def shown(self, line: str, code: int, out: str, said: str) -> str:
        """Returns what a reviewer reads: the command line, its exit code, and what it printed where."""
        text = f"$ shoal {line}\nexit code {code}\n"
        for title, stream in (("standard output", out), ("standard error", said)):
            text += f"\n--- {title}\n{stream}" if stream else ""
        return indented(filtered(text, self.directory))

    def taken(self, *names: str) -> None:
        """Makes `out`, with files of the user's own in it."""
        self.out.mkdir()
        for name in names:
            (self.out / name).write_text("mine")

    def copied(self, *, links: Any = None, **options: Any) -> None:
        """Copies the tree into `out`, as an earlier run."""
        tree = package.files(self.tree, links=links)
        package.copy(tree, self.out, **{"workers": 1, "durability": "file", "on_error": "record", **options})

    def interrupted(self, line: str = "") -> str:
        """Begins to copy into `out`, runs a command line meanwhile if there is one, and stops the copy."""
        said = ""

        def stop(now: package.Progress) -> None:
            nonlocal said
            if not now.run.written:
                return  # an attempt that has listed nothing is not shown
            said = self.run(line) if line else ""
            raise KeyboardInterrupt

        url = self.service(synthetic="1000000:100").url
        with pytest.raises(KeyboardInterrupt):
            package.copy(url, self.out, durability="file", limit_rate="20kB", progress=stop)
        return said

    def server(self, *names: str) -> FaultServer:
        """Starts a service that is to be told what to do wrong; its objects have five bytes."""
        return self._make_server(dict.fromkeys(names or ("one", "two"), b"12345")).start()


# A command line, or a function that changes the place first and returns what `Place.run` returns.
Case = str | Callable[[Place], str]
