"""Help, how runs end, and what `shoal status` says of them.

Each command line gives the number of workers, since "auto" depends on the machine, and the durability, since what
`batch` does depends on the file system. No output depends on the order in which a directory is listed.
"""

from __future__ import annotations

import re
import signal
import time

import shoal as package
from conftest import PATIENCE
from servers import faults
from shoal.cli import COMMANDS
from snapshots.place import Case, Place

HELP: dict[str, Case] = {
    "shoal": "--help",
    "version": "--version",
    **{command: f"{command} --help" for command in COMMANDS},
    "copy-all": "copy --help-all",
}


def copy_again(place: Place) -> str:
    place.copied()
    return place.run("copy tree out")


def copy_name_taken(place: Place) -> str:
    place.taken("a.txt")
    return place.run("copy tree out --workers 1 --durability none")


def copy_retry_failed(place: Place) -> str:
    place.taken("a.txt")
    place.copied()
    (place.out / "a.txt").unlink()
    return place.run("copy tree out --retry-failed --workers 1 --durability none --progress none")


def copy_odd_files(place: Place) -> str:
    (place.tree / "link").symlink_to("a.txt")
    (place.tree / ".shoal").mkdir()
    return place.run("copy tree out --links skip --workers 2 --durability none")


def copy_service_failures(place: Place) -> str:
    server = place.server("fine", "forbidden", "gone", "short", "sick")
    server.on_object("forbidden", faults.status(403))
    server.on_object("gone", faults.status(404))
    server.on_object("short", faults.cut_body(2, "fin"))
    server.on_object("sick", faults.status(500))
    return place.run(f"copy {server.url} out --max-retries 0 --workers 1 --pipeline off --durability none")


def copy_stopped(place: Place) -> str:
    line = f"copy {place.service(synthetic='1000000:100').url} out --limit-rate 20kB --durability none"
    process = place.start(line)
    while not list(place.out.glob("object-*")):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=PATIENCE)
    return place.shown(line, process.returncode, out, said)


def serve(place: Place) -> str:
    line = "serve tree --port 0"
    process = place.start(line)
    assert process.stdout is not None
    assert process.stderr is not None
    out, said = process.stdout.readline(), process.stderr.readline()
    process.send_signal(signal.SIGINT)
    rest = process.communicate(timeout=PATIENCE)
    return place.shown(line, process.returncode, out + rest[0], said + rest[1])


ENDS: dict[str, Case] = {
    "copy": "copy tree out --workers 2 --durability file",
    "copy-again": copy_again,
    "copy-json": "copy tree null: --workers 2 --json --quiet",
    "copy-name-taken": copy_name_taken,
    "copy-no-file-matches": "copy 'tree/*.jpg' null: --workers 2",
    "copy-odd-files": copy_odd_files,
    "copy-retry-failed": copy_retry_failed,
    "copy-service-failures": copy_service_failures,
    "copy-stopped": copy_stopped,
    "copy-verbose": "copy tree out --workers 2 --durability file --verbose",
    "copy-text-log": "copy tree out --workers 2 --durability file --log-format text",
    "generate": "generate make:text 3 out --name data-{:04d}.csv --workers 1 --durability none",
    "generate-failures": "generate make:odd 3 out --name data-{:04d}.csv --workers 1 --durability none",
    "read-checksums": "read zip:a.zip --checksum xxh3 --order source --workers 1",
    "records-bytes": "records index.bin",
    "records-count": "records index.bin --format '<QII' --names ts,id,len --count --sum len --max ts",
    "records-table": "records index.bin --format '<QII' --names ts,id,len --head 3",
    "records-to-file": "records index.bin --format '<QII' --names ts,id,len --to out.csv",
    "serve": serve,
    "unzip": "unzip a.zip -d out --workers 1 --durability none",
    "unzip-damaged": "unzip a.zip cut.zip -d out --workers 1 --durability none",
    "unzip-name-taken": "unzip a.zip b.zip -d out --workers 1 --durability none",
    "unzip-test": "unzip a.zip cut.zip --test --workers 1",
}


def status_complete(place: Place) -> str:
    place.copied()
    return place.run("status out")


def status_failures(place: Place) -> str:
    server = place.server("one", "two", "three")
    server.on_objects(faults.status(404), skip=1)
    package.copy(
        package.list_get(server.url, pipeline="off"), place.out, workers=1, durability="none", on_error="record"
    )
    return place.run("status out --failures 1")


def status_unfinished(place: Place) -> str:
    place.interrupted()
    return without_counts(place.run("status out"))


def status_at_work(place: Place) -> str:
    return without_counts(place.interrupted("status out"))


def without_counts(said: str) -> str:
    """Puts placeholders for how far a run has come."""
    return re.sub(r"[\d,]+ written \(.*\), [\d,]+ listed", "<number> written (<size>), <number> listed", said)


def verify(place: Place) -> str:
    listed = place.shoal.run("read", "tree", "--checksum", "sha256").stdout
    (place.directory / "SHA256SUMS").write_text(listed)
    (place.tree / "a.txt").write_text("changed")
    (place.tree / "b.txt").unlink()
    return place.run("verify tree SHA256SUMS --workers 1")


def status_csv(place: Place) -> str:
    place.taken("a.txt")
    place.copied()
    return place.run("status out --csv")


def status_skipped(place: Place) -> str:
    (place.tree / "link").symlink_to("a.txt")
    place.copied(links="skip")
    return place.run("status out --skipped all")


def status_json(place: Place) -> str:
    place.taken("a.txt")
    place.copied()
    return place.run("status out --json")


ENDS["verify"] = verify
STATES: dict[str, Case] = {
    "at-work": status_at_work,
    "complete": status_complete,
    "csv": status_csv,
    "failures": status_failures,
    "json": status_json,
    "skipped": status_skipped,
    "unfinished": status_unfinished,
}
