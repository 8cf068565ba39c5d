"""Errors that end a command: those that users meet and that a test can provoke quickly.

The words of `usage` and `usage-json` are those of click; a new version of it may change them.
"""

from __future__ import annotations

import sqlite3
import ssl
from contextlib import closing
from pathlib import Path

import trustme

from conftest import PATIENCE
from servers import faults
from servers.fault_server import Fault
from servers.ports import closed_port
from servers.tls_server import TlsFront
from snapshots.place import Case, Place

HTML = {"Content-Type": "text/html"}
SOON = "--max-retries 1 --retry-timeout 0.2"  # a failure that could be tried again is final soon


def listing(fault: Fault, options: str = SOON) -> Case:
    """A copy from a service whose listing does this."""

    def case(place: Place) -> str:
        server = place.server()
        server.on_list(fault)
        return place.run(f"copy {server.url} out {options}")

    return case


def objects(fault: Fault) -> Case:
    """A copy from a service whose objects do this."""

    def case(place: Place) -> str:
        server = place.server()
        server.on_objects(fault)
        return place.run(f"copy {server.url} null: --workers 1 --pipeline off {SOON}")

    return case


def refused(place: Place) -> str:
    with closed_port() as port:
        return place.run(f"copy http://127.0.0.1:{port} out {SOON}")


def untrusted(place: Place) -> str:
    trustme.CA().cert_pem.write_to_path(str(place.directory / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    with TlsFront(context, place.server().port) as front:
        return place.run(f"copy {front.url} out --ca-file ca.pem {SOON}")


def proxy(place: Place) -> str:
    return place.run("copy http://files.local:8080 out", http_proxy="socks5://proxy.local:1080")


def other_options(place: Place) -> str:
    place.copied()
    return place.run("copy tree out --include '*.txt'")


def destination_gone(place: Place) -> str:
    place.copied(journal=place.directory / "journal")
    place.out.rename(place.directory / "elsewhere")
    return place.run("copy tree out --journal journal")


def other_run(place: Place) -> str:
    return place.interrupted("copy tree out")


def journal_is_newer(place: Place) -> str:
    place.copied()
    with closing(sqlite3.connect(place.out / ".shoal/journal.db")) as connection:
        connection.execute("PRAGMA user_version = 99")
        connection.commit()
    return place.run("copy tree out")


def journal_is_damaged(place: Place) -> str:
    place.copied()
    (place.out / ".shoal/journal.db").write_text("no database")
    return place.run("status out")


def journal_is_a_link(place: Place) -> str:
    place.taken()
    (place.out / ".shoal").symlink_to(place.tree)
    return place.run("copy tree out")


def too_many_failures(place: Place) -> str:
    place.taken("a.txt")
    return place.run("copy tree out --workers 1 --max-failures 0")


def few_open_files(place: Place) -> str:
    return place.run("copy tree out", under=("prlimit", "--nofile=20:20"))


def output_lost(place: Place) -> str:
    with Path("/dev/full").open("w") as full:
        process = place.start("read tree --checksum xxh3 --quiet", stdout=full)
        said = process.communicate(timeout=PATIENCE)[1]
    return place.shown("read tree --checksum xxh3 --quiet >/dev/full", process.returncode, "", said)


ERRORS: dict[str, Case] = {
    # The command line
    "usage": "copy tree out --durability maybe",
    "usage-json": "copy tree --json",
    "command-unknown": "cpoy tree out",
    "command-of-another-program": "sync tree out",
    "flag-of-another-program": "copy tree out --threads 4",
    "glob-not-quoted": "copy a.zip b.zip out",
    "number-wrong": "copy tree out --max-failures -1",
    "verify-empty": "verify tree /dev/null",
    "size-wrong": "copy tree out --memory lots",
    "encoding-unknown": "unzip a.zip -d out --encoding klingon",
    "unzip-without-directory": "unzip a.zip",
    "generate-file-name": "generate make.py:text 3 out",
    "generate-no-function": "generate make 3 out",
    "generate-one-name": "generate make:text 3 out --name same.csv",
    # Sources and destinations
    "source-missing": "copy missing out",
    "source-unknown": "copy ftp://files.local out",
    "destination-unknown": "copy tree s3://bucket",
    "destination-is-a-file": "copy tree a.zip",
    "destination-in-source": "copy tree tree/out",
    "few-open-files": few_open_files,
    "too-many-failures": too_many_failures,
    "output-lost": output_lost,
    # Journals
    "no-journal": "status nowhere",
    "no-failures-to-retry": "copy tree null: --retry-failed",
    "other-options": other_options,
    "destination-gone": destination_gone,
    "other-run": other_run,
    "journal-is-newer": journal_is_newer,
    "journal-is-damaged": journal_is_damaged,
    "journal-is-a-link": journal_is_a_link,
    # Services
    "url-wrong": "copy http://host:port out",
    "proxy": proxy,
    "refused": refused,
    "untrusted": untrusted,
    "ca-file-wrong": "copy https://127.0.0.1:1 out --ca-file make.py",
    "name-pattern-wrong": "copy http://127.0.0.1:1 out --name same.json",
    "allowed-host-wrong": "copy http://127.0.0.1:1 out --allow-host http://other.example",
    "listing-is-html": listing(faults.status(200, b"<html>", HTML)),
    "listing-is-an-array": listing(faults.status(200, b'["one"]')),
    "listing-missing": listing(faults.status(404)),
    "listing-refused": listing(faults.status(401)),
    "listing-has-other-fields": listing(faults.status(200, b'{"items": ["one"]}')),
    "listing-may-go-on": listing(faults.page(["one"], cursor="2")),
    "listing-never-ends": listing(faults.page(["one"], "again")),
    "listing-elsewhere": listing(faults.redirect(302, "http://other.example/list")),
    "objects-refused": objects(faults.status(401)),
    "objects-much-later": objects(faults.status(503, headers={"Retry-After": "3600"})),
    "objects-are-html": objects(faults.status(200, b"<html>", HTML)),
    # Records
    "records-no-file": "records 'no-*.bin' --format '<Q'",
    "records-no-field": "records index.bin --format '<QII' --where 'size > 1'",
    "records-no-format": "records index.bin --count",
    "records-torn": "records index.bin --format '<QIH'",
    "records-to-no-directory": "records index.bin --format '<QII' --to missing/out.csv",
    "records-to-no-format": "records index.bin --format '<QII' --to out.xls",
}
