"""The main job on real input: copy 100,000 objects, kill the run half-way, resume it, verify every byte.

The verification shares nothing with the engine: it computes names and contents by the service's rule (the name and a
newline, repeated and truncated), and reads from the server's access log what was fetched twice.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

COUNT = 100_000
SIZE = 100  # bytes
# What one barrier covers, and so the most that a kill can cost (ARCHITECTURE.md, "batch").
BATCH = 20_000
SHOAL = [str(Path(sys.executable).with_name("shoal"))]


def say(text: str) -> None:
    """A line that stands out."""
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)


def start_service(log: Path) -> tuple[subprocess.Popen[str], str]:
    """The list/get service, and its address."""
    command = [*SHOAL, "serve", "--synthetic", f"{COUNT}:{SIZE}", "--port", "0", "--access-log", str(log)]
    say("$ " + " ".join(["shoal", *command[1:]]))
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    line = server.stdout.readline() if server.stdout else ""
    found = re.search(r"http://\S+", line)
    if found is None:
        raise SystemExit(f"the service did not start: {line!r}")
    print(line.rstrip())
    return server, found.group().rstrip("/")


def copied(destination: Path) -> int:
    """Objects at the destination."""
    with os.scandir(destination) as entries:
        return sum(1 for entry in entries if entry.name != ".shoal")


def copy_and_kill(url: str, destination: Path) -> None:
    """A copy that dies half-way."""
    say(f"$ shoal copy {url} {destination}    (killed with SIGKILL half-way)")
    run = subprocess.Popen([*SHOAL, "copy", url, str(destination)])
    while run.poll() is None and (not destination.is_dir() or copied(destination) < COUNT // 2):
        time.sleep(0.02)
    if run.poll() is not None:
        raise SystemExit("the run was over before it could be killed")
    run.send_signal(signal.SIGKILL)
    run.wait()
    print(f"killed; {copied(destination):,} files are there, some of them perhaps half written")


def resume(url: str, destination: Path) -> float:
    """The same command again; its seconds."""
    say(f"$ shoal copy {url} {destination}    (the same command again)")
    began = time.monotonic()
    subprocess.run([*SHOAL, "copy", url, str(destination)], check=True)
    return time.monotonic() - began


def verify(destination: Path, log: Path) -> None:
    """Names, bytes, and what was fetched twice."""
    say("verifying every name and every byte, apart from shoal")
    names = {entry.name for entry in os.scandir(destination)} - {".shoal"}
    wanted = {f"object-{number:09}" for number in range(COUNT)}
    if names != wanted:
        raise SystemExit(f"wrong names: {len(wanted - names)} missing, {len(names - wanted)} too many")
    for name in wanted:
        line = name.encode() + b"\n"
        if (destination / name).read_bytes() != (line * (SIZE // len(line) + 1))[:SIZE]:
            raise SystemExit(f"wrong bytes in {name}")
    print(f"{len(names):,} files of {SIZE} bytes, every byte right")

    fetched = Counter(re.findall(r"/get/(object-\d+)", log.read_text()))
    twice = sum(1 for count in fetched.values() if count > 1)
    print(f"{len(fetched):,} objects were fetched, {twice:,} of them twice (at most one batch: {BATCH:,})")
    if twice > BATCH or max(fetched.values()) > 2 or set(fetched) != wanted:
        raise SystemExit("more than one batch was fetched again")


def main() -> None:
    """The whole demonstration."""
    root = Path("demo-out")
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    began = time.monotonic()
    server, url = start_service(root / "access.log")
    try:
        copy_and_kill(url, root / "objects")
        seconds = resume(url, root / "objects")
        say(f"$ shoal status {root / 'objects'}")
        subprocess.run([*SHOAL, "status", str(root / "objects")], check=True)
    finally:
        server.terminate()  # not SIGINT: a shell that runs this in the background has it ignored
        server.wait(timeout=10)
    verify(root / "objects", root / "access.log")
    total = time.monotonic() - began
    say(f"done in {total:.1f} s, {seconds:.1f} s of them for the resumed run; the files are in {root}/")


if __name__ == "__main__":
    main()
