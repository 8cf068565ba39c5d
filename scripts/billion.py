"""Copies a billion objects of 100 bytes from `shoal serve` into Parquet files; then DuckDB checks every row, not shoal.

Run it again to continue after an interruption. When everything is copied, it only checks. DEST has `objects/` (the
Parquet files, and the journal), `rates.csv` (a line for each second of copying) and `settings.json`.

The journal binds a run to the address of its source. So the service needs the same port each time: the system chooses
one at the first invocation, and `settings.json` has it for the others.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import ctypes
import importlib.util
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

SIZE = 100  # bytes of an object
# Bytes on disk for each object: measured 4.1 with 20,000,000 objects, 100.7 with 5,000,000, and some more.
PER_OBJECT = {"names": 5, "random": 105}
BUCKET = 1_000_000  # names that are counted together, by one query
MEMORY_LIMIT = "4GB"
SHOWN_EVERY = 10  # seconds of copying, or buckets, for one line of output
COLUMNS = ("seconds", "received", "committed", "memory", "disk")
SHOAL = [str(Path(sys.executable).with_name("shoal"))]
PR_SET_PDEATHSIG = 1  # linux/prctl.h


def start(command: list[str], *, stdout: int | None = None, stderr: int | None = None) -> subprocess.Popen[str]:
    """Starts a child that a Ctrl-C in the terminal does not reach, and that ends if this process is killed."""
    libc = ctypes.CDLL(None)
    return subprocess.Popen(
        [*SHOAL, *command],
        stdout=stdout,
        stderr=stderr,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM),
    )


@contextlib.contextmanager
def service(root: Path, objects: int, contents: str) -> Iterator[str]:
    """The list/get service, at the address that it had before; yields its URL."""
    wanted = {"objects": objects, "contents": contents}
    settings = root / "settings.json"
    known = json.loads(settings.read_text()) if settings.exists() else {**wanted, "port": 0}
    if known != {**wanted, "port": known["port"]}:
        raise SystemExit(
            f"{root} has OBJECTS={known['objects']} CONTENTS={known['contents']}: use these, or another DEST"
        )
    what = f"{objects}:{SIZE}" + (":random" if contents == "random" else "")
    server = start(["serve", "--synthetic", what, "--port", str(known["port"]), "--quiet"], stdout=subprocess.PIPE)
    try:
        url = server.stdout.readline().strip() if server.stdout else ""
        port = re.search(r":(\d+)$", url)
        if port is None:
            raise SystemExit(f"the service did not start: end the program on port {known['port']}, or use another DEST")
        settings.write_text(json.dumps({**wanted, "port": int(port[1])}) + "\n")
        yield url
    finally:
        server.terminate()
        server.wait()


def on_disk(directory: Path) -> int:
    """Bytes that a directory takes on disk."""
    total = 0
    for path in directory.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # renamed meanwhile
            total += path.stat().st_blocks * 512
    return total


def memory(pid: int) -> int:
    """Bytes of a process that are in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def check_space(root: Path, objects: int, contents: str) -> None:
    """Refuses a copy for which the disk has no room."""
    each = PER_OBJECT[contents]
    needed = objects * each - on_disk(root)
    free = shutil.disk_usage(root).free
    print(
        f"{objects:,} objects take {objects * each / 1e9:,.1f} GB at {each} bytes each; {free / 1e9:,.1f} GB are free"
    )
    if needed > free:
        raise SystemExit(f"not enough space: {(needed - free) / 1e9:,.1f} GB more are needed at {root}")


def copy(url: str, root: Path, objects: int) -> None:
    """Copies, and records what the copy says of itself; ends this program unless the copy is complete."""
    destination = root / "objects"
    print(f"$ shoal copy {url} parquet:{destination}", flush=True)
    told = ["--log-format", "json", "--progress", "plain"]
    run = start(["copy", url, f"parquet:{destination}", *told], stderr=subprocess.PIPE)
    # It commits what it has, and ends; the loop below ends with it.
    before = [signal.signal(each, lambda *_: run.terminate()) for each in (signal.SIGINT, signal.SIGTERM)]
    try:
        if run.stderr is not None:
            record(run.stderr, run.pid, root, objects)
        code = run.wait()
    finally:
        run.kill()
        run.wait()
        for each, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
            signal.signal(each, handler)
    if code:
        raise SystemExit(code)


def record(events: IO[str], pid: int, root: Path, objects: int) -> None:
    """Writes a line to rates.csv for each line of progress, and prints some of them, with what is still needed."""
    path = root / "rates.csv"
    earlier = list(csv.DictReader(path.open())) if path.exists() else []
    begin = float(earlier[-1]["seconds"]) if earlier else 0.0
    with path.open("a", buffering=1) as file:
        table = csv.writer(file, lineterminator="\n")
        if not earlier:
            table.writerows([COLUMNS, (0, 0, 0, 0, 0)])
        used = lines = 0
        for line in events:
            event = json.loads(line)
            with contextlib.suppress(OSError):
                used = memory(pid) or used  # 0: it has just ended
            seconds = round(begin + event.get("seconds", 0), 3)
            if event["type"] == "progress":
                first = event["resumed_from"]
                received, committed = first + event["written"], first + event["committed"]
                disk = on_disk(root / "objects")
                table.writerow((seconds, received, committed, used, disk))
                lines += 1
                if lines % SHOWN_EVERY == 0:
                    rate = event["objects_per_second"]
                    minutes = (objects - received) / rate / 60 if rate else math.inf
                    space = disk * (objects / max(committed, 1) - 1) / 1e9
                    print(
                        f"{received:,} received, {committed:,} committed, {rate:,.0f}/s, {used / 1e6:.0f} MB of "
                        f"memory; {minutes:,.1f} min and {space:,.1f} GB of disk left to go",
                        flush=True,
                    )
            elif event["type"] == "summary" and not event["completed_before"]:
                done = event["total"]["written"]
                table.writerow((seconds, done, done, used, on_disk(root / "objects")))
            elif event["type"] != "summary":
                print(event["message"], event.get("hint") or "", flush=True)


def show_rates(root: Path, objects: int) -> None:
    """Prints a table of the tenths of the run, and its totals."""
    import duckdb

    tenths = f"""
        with lines as (from read_csv('{root}/rates.csv')), whole as (select max(seconds) as seconds from lines)
        select 1 + least(9, floor(10 * lines.seconds / whole.seconds)) as tenth, min(lines.seconds), max(lines.seconds),
            (max(committed) - min(committed)) / nullif(max(lines.seconds) - min(lines.seconds), 0), max(memory)
        from lines, whole group by tenth order by tenth"""
    print("\ntenth     seconds         objects/s   memory")
    for tenth, first, last, rate, used in duckdb.sql(tenths).fetchall():
        shown = "-" if rate is None else f"{rate:,.0f}"
        print(f"{tenth:5.0f}  {first:7,.0f} -{last:7,.0f}  {shown:>11}  {used / 1e6:4,.0f} MB")
    seconds, used = duckdb.sql(f"select max(seconds), max(memory) from '{root}/rates.csv'").fetchall()[0]
    size = on_disk(root / "objects")
    print(
        f"{objects:,} objects in {seconds:,.1f} s: {objects / seconds:,.0f}/s, at most {used / 1e6:,.0f} MB of memory"
    )
    print(f"{size:,} bytes on disk, {size / max(objects, 1):.2f} for each object", flush=True)


def verify(directory: Path, objects: int, contents: str) -> int:
    """Counts the rows of each bucket of names, and compares contents; prints what differs, and returns how many do."""
    import duckdb

    digits = max(9, len(str(objects - 1)))
    right = f"size = {SIZE} and octet_length(data) = {SIZE}"
    if contents == "names":
        times = SIZE // (len("object-\n") + digits) + 1
        right += f" and data = encode(substr(repeat(name || chr(10), {times}), 1, {SIZE}))"
    wrong = seen = 0
    with duckdb.connect(config={"memory_limit": MEMORY_LIMIT}) as connection:
        # Which names are in which file: a query then opens only files that can have some of its names.
        ranges = connection.sql(f"""
            select file_name, min(stats_min_value), max(stats_max_value) from parquet_metadata('{directory}/*.parquet')
            where path_in_schema = 'name' group by file_name""").fetchall()
        for first in range(0, objects, BUCKET):
            last = min(objects, first + BUCKET) - 1
            least, most = (f"object-{number:0{digits}}" for number in (first, last))
            files = [file for file, low, high in ranges if low <= most and high >= least]
            # A name without a number has the number null, which is not counted.
            query = f"""
                select count(*), count(distinct try_cast(substr(name, 8) as bigint)), count(*) - count_if({right})
                from read_parquet({files}) where name between '{least}' and '{most}'"""
            rows, names, bad = connection.sql(query).fetchall()[0] if files else (0, 0, 0)
            seen += rows
            if (rows, names, bad) != (last - first + 1, last - first + 1, 0):
                wrong += 1
                print(
                    f"objects {first:,} to {last:,}: {rows:,} rows, {names:,} names, {bad:,} wrong contents", flush=True
                )
            if first // BUCKET % SHOWN_EVERY == SHOWN_EVERY - 1:
                print(f"checked {last + 1:,} of {objects:,} objects", flush=True)
        (total,) = connection.sql(f"select count(*) from '{directory}/*.parquet'").fetchall()[0]
    if total != seen:
        wrong += 1
        print(f"{total - seen:,} rows with names that were not served")
    return wrong


def main() -> None:
    """Copies, prints the rates, and checks."""
    parser = argparse.ArgumentParser(description="Copies objects into Parquet files, and checks every row.")
    parser.add_argument("--objects", type=int, default=1_000_000_000)
    parser.add_argument("--contents", choices=sorted(PER_OBJECT), default="names")
    parser.add_argument("dest", type=Path, nargs="?", default=Path("billion-out"))
    asked = parser.parse_args()
    if importlib.util.find_spec("duckdb") is None:
        raise SystemExit(f"DuckDB is not installed: {sys.executable} -m pip install --group tests")
    asked.dest.mkdir(parents=True, exist_ok=True)
    check_space(asked.dest, asked.objects, asked.contents)
    with service(asked.dest, asked.objects, asked.contents) as url:
        copy(url, asked.dest, asked.objects)
    show_rates(asked.dest, asked.objects)
    if wrong := verify(asked.dest / "objects", asked.objects, asked.contents):
        raise SystemExit(f"{wrong:,} differences")
    right = "every byte right" if asked.contents == "names" else "every length right"
    print(f"{asked.objects:,} rows, each name once, {right}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
