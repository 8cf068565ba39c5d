"""Random lists of URLs, and what must become of each record: the oracle of `test_urls_model.py`.

A record is made of parts that are known, so nothing here takes a line or a URL apart. Not here: what a host answers.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes

import pytest

arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
parquet = pytest.importorskip("pyarrow.parquet")

SENT_AS_THEY_ARE = "!$%&'()*+,-./:;=?@[]_~"  # characters of a path or query, beside letters and digits
TEMPLATES = ["{name}", "{path}", "{host}/{path}", "{hash}", "{index:06d}.bin", "all/{name}"]

# Ends of paths, each with a number that makes it another object. The first kind is safe and has a name of its own.
PLAIN = [
    "a{n}.jpg",
    "d{k}/e/{n}",
    "with space {n}",
    "p%20q%2Fr/{n}",
    "é{n}%C3%BC",
    "%2541{n}",
    "plus+{n}&x=y;z",
    "x%0A{n}",
]
PLAIN += ['q"<>^`{{|}}{n}', "[{n}]!$'()*,@:~-_", "back\\{n}", "%FF{n}"]
ODD = ["%2e%2e/{n}", "{n}/", "a//{n}", "{n}%00", "{n}%", "{n}%zz", ".shoal/{n}", "x" * 256 + "{n}", "y/" * 2100 + "{n}"]
SHARED = ["same{k}", "tree{k}", "tree{k}/{n}", "tree{k}/in/{n}"]

NAMES = ["named/{n}.bin", "n {n}", "{n}", "back\\{n}", "ü{n}", "line {{line}}", ""]
ODD_NAMES = ["../{n}", "/{n}", "a/../{n}", ".shoal/journal.db", ".SHOAL/{n}", "n//{n}", "z" * 256, "./{n}"]
SHARED_NAMES = ["named{k}", "named{k}/{n}"]

BAD_URLS = ["file:///etc/passwd", "ftp://user:{secret}@h/x", "/etc/passwd", "no URL {secret}", "http:///x"]
BAD_URLS += ["http://h:99999/x?{secret}", "http://us%zz:{secret}@h/x", "http://h\\@{secret}/x", "http://é/{secret}"]
BAD_URLS += ["javascript://{secret}/x", "http://h/" + "y" * 40_000]
LINK_LOCAL = "169.254.169.254"  # never requested
BAD_LINES = {
    "txt": [b"http://h/\xff", b"x" * 70_000, b"http://h/\0x", b"\x01", b"http://h/x\tname"],
    "csv": [b"7", b"7,http://h/\xff,n\xff,", b"7,,,", b'7,"http://h/\n/x",n,'],
    "tsv": [b"7", b"7\thttp://h/\xff\tn\xff\t", b"7\t\t\t", b"\t", b'7\t"http://h/x" y', b"7\thttp://h/x\t\t\t\t7"],
    "jsonl": [
        b"{",
        b"[]",
        b"7",
        b'{"id": 7}',
        b'{"link": null}',
        b'{"link": "http://h/x", "link": "http://h/y"}',
        b'{"link": "http://h/\xff"}',
        b'{"link": ""}',
    ],
    "parquet": [b""],  # a row without a URL
}
FILLERS = {
    "txt": [b"", b"  \t", b"# a comment", b"#http://h/x", b"#\tx"],
    "csv": [b"", b" "],
    "tsv": [b""],
    "jsonl": [b"", b"  "],
}


@dataclass(frozen=True)
class Record:
    """A record, before it has a place in a list.

    Attributes:
        url: Its URL as written; of a line that is no record or a bad one, None.
        given: Its name in the list.
        host: The number of the host; None if the URL must not be fetched.
        shown: The host as it is in names; empty if the URL is not valid.
        path: The path, decoded; None if that is not possible.
        target: Path and query as they are requested.
        login: User and password that must be sent.
        raw: The line, if it has no fields.
        is_filler: The line is no record.
    """

    url: str | None = None
    given: str | None = None
    host: int | None = None
    shown: str = ""
    path: str | None = None
    target: str = ""
    login: str | None = None
    raw: bytes = b""
    is_filler: bool = False


@dataclass(frozen=True)
class Wanted:
    """What must become of a record at its place; `name` is None if it must fail, and then is called `failure`."""

    line: int
    record: Record
    name: str | None
    failure: str


class Maker:
    """Makes records with numbers that no other record has."""

    def __init__(self, chance: random.Random, authorities: Sequence[str], form: str, secret: str) -> None:
        self.chance, self.authorities, self.form, self.secret = chance, authorities, form, secret
        self.number = 0

    def fill(self, text: str) -> str:
        """Puts the numbers of this record into a pattern."""
        return text.format(n=self.number, k=self.number % 4, secret=self.secret)

    def records(self, count: int, odd: float) -> list[Record]:
        """Makes so many, of which a part is odd: bad, without a safe name, or named like others."""
        found: list[Record] = []
        for _ in range(count):
            self.number += 1
            is_odd = self.chance.random() < odd
            if is_odd and self.chance.random() < 0.1 and found:
                found.append(self.chance.choice(found))  # the same URL again
            else:
                found.append(self.odd() if is_odd else self.good(PLAIN, NAMES))
        return found

    def odd(self) -> Record:
        """Makes a record that is in some way no plain one."""
        chance = self.chance
        fillers = FILLERS.get(self.form)
        kinds = [
            "bad line",
            "bad URL",
            "odd path",
            "odd name",
            "shared",
            "shared",
            "shared name",
            "filler",
            "link-local",
        ]
        kind = chance.choice(kinds)
        if kind == "bad line":
            return Record(raw=chance.choice(BAD_LINES[self.form]))
        if kind == "bad URL":
            return Record(url=self.fill(chance.choice(BAD_URLS)), given=chance.choice([None, f"bad {self.number}"]))
        if kind == "link-local":
            path = self.fill("local{n}")
            return Record(
                f"http://{LINK_LOCAL}/{path}?{self.secret}",
                shown=LINK_LOCAL,
                path=path,
                target=f"/{path}?{self.secret}",
            )
        if kind == "filler" and fillers:
            return Record(raw=chance.choice(fillers), is_filler=True)
        paths = {"odd path": ODD, "shared": SHARED}.get(kind, PLAIN)
        names = {"odd name": ODD_NAMES, "shared name": SHARED_NAMES}.get(kind)
        return self.good(paths, names or NAMES, is_named=names is not None)

    def good(self, paths: list[str], names: list[str], *, is_named: bool = False) -> Record:
        """Makes a record with a URL that can be fetched."""
        chance = self.chance
        host = chance.randrange(len(self.authorities))
        written = self.fill(chance.choice(paths))
        path = None if written.endswith(("%", "%zz")) else os.fsdecode(unquote_to_bytes(written))
        query = chance.choice(["", "", f"?token={self.secret}&n={self.number}", "?a b"])
        login = chance.choice([None, None, None, f"u{self.number % 3}:{self.secret}", f"a b:{self.secret}"])
        user = "" if login is None else login.replace(" ", "%20") + "@"
        authority = self.authorities[host]
        begin = chance.choice(["http://", "http://", "HTTP://", "Http://"]) + user
        url = f"{begin}{authority}/{written}{query}{chance.choice(['', '', '#part'])}"
        target = quote(f"/{written}{query}", safe=SENT_AS_THEY_ARE)
        given = self.fill(chance.choice(names)) if is_named or chance.random() < 0.3 else None
        return Record(url, given, host, authority.lower(), path, target, login)


def name_of(template: str, record: Record, index: int) -> str | None:
    """The name that a template makes for a record, which need not be safe; None if it makes none."""
    uses_path = "{path}" in template or ("{name}" in template and record.given is None)
    if uses_path and (not record.path or record.path.endswith("/")):
        return None
    # Without the fragment, and as requested: what is documented to tell two URLs apart.
    digest = hashlib.sha256(f"http://{record.shown}{record.target}".encode()).hexdigest()[:32]
    parts = {"path": record.path, "host": record.shown, "hash": digest, "index": index}
    return template.format(name=record.path if record.given is None else record.given, **parts)


def is_safe(name: str, *, is_row: bool) -> bool:
    """Whether a file may have this name; or a row of a Parquet file, which only needs text."""
    raw = os.fsencode(name)
    if is_row:
        return 0 < len(raw) < 4096 and not any("\udc80" <= letter <= "\udcff" for letter in name)
    parts = raw.split(b"/")
    is_own = parts[0].lower() == b".shoal"
    return (
        len(raw) < 4096
        and b"\0" not in raw
        and not is_own
        and all(0 < len(part) < 256 and part not in (b".", b"..") for part in parts)
    )


@dataclass
class UrlList:
    """A list in a file, which can be changed."""

    path: Path
    records: list[Record]
    chance: random.Random
    is_named: bool
    fields = ("link", "file")

    @property
    def form(self) -> str:
        """Its format."""
        return self.path.suffix[1:]

    def write(self) -> None:
        """Writes the file, as its format is."""
        if self.form == "parquet":
            columns = {"id": [*range(len(self.records))], "link": [record.url for record in self.records]}
            if self.is_named:
                given = [record.given for record in self.records]
                columns["file"] = [name and name.format(line=line) for line, name in enumerate(given, 1)]
            schema = arrow.schema([(name, "int64" if name == "id" else "string") for name in columns])
            parquet.write_table(arrow.table(columns, schema), self.path, row_group_size=70)
            return
        chunks = [b"id,link,file,text\n".replace(b",", self.separator)] if self.separator else []
        chunks += [text for text, _ in self.lines()]
        self.path.write_bytes(b"".join(chunks))

    @property
    def separator(self) -> bytes:
        """What separates fields, if rows have them."""
        return {"csv": b",", "tsv": b"\t"}.get(self.form, b"")

    def lines(self) -> Iterator[tuple[bytes, int]]:
        """The text of each record, and the number of its first line."""
        number = 2 if self.separator else 1
        for record in self.records:
            text = self.text(record, number)
            yield text, number
            number += text.count(b"\n")

    def text(self, record: Record, number: int) -> bytes:
        """A record as it is written; how it is written depends on its number alone."""
        chance = random.Random(number)
        end = chance.choice([b"\n", b"\n", b"\r\n"])
        if record.url is None:
            return record.raw + b"\n"
        given = None if record.given is None else record.given.format(line=number)
        if self.form == "jsonl":
            fields: dict[str, object] = {"id": [number, {}], "link": record.url, "text": "ü\n"}
            fields |= {} if given is None else {"file": int(given) if given.isdecimal() else given}
            return json.dumps(fields, ensure_ascii=chance.random() < 0.5).encode() + end
        if self.separator:
            words = chance.choice(["", "x", 'a "quoted" word', "two\nlines"])
            row = io.StringIO()
            csv.writer(row, delimiter=self.separator.decode(), lineterminator=end.decode()).writerow(
                [number, f" {record.url} ", given or "", words]
            )
            return row.getvalue().encode()
        name = "" if given is None else f"{given}\t"
        return name.encode() + chance.choice(["", "", "  "]).encode() + f"{record.url}".encode() + end

    def wanted(self, template: str, *, is_row: bool) -> list[Wanted]:
        """What must become of each record."""
        numbers = range(1, len(self.records) + 1) if self.form == "parquet" else [line for _, line in self.lines()]
        found = []
        index = 0
        for line, record in zip(numbers, self.records, strict=True):
            if record.is_filler:
                continue
            placed = replace(record, given=record.given.format(line=line) if record.given and self.is_named else None)
            name = name_of(template, placed, index) if record.shown else None
            is_good = name is not None and record.host is not None and is_safe(name, is_row=is_row)
            found.append(Wanted(line, placed, name if is_good else None, f"line {line}" if name is None else name))
            index += 1
        return found

    def change(self, maker: Maker) -> str:
        """Changes the list, as a user may between two runs; returns how."""
        kind = self.chance.choice(["append", "truncate", "insert", "replace", "shuffle"])
        at = len(self.records) if kind == "append" else self.chance.randrange(1, len(self.records) + 1)
        before, behind = self.records[:at], self.records[at:]
        new = maker.records(self.chance.randint(1, 30), odd=0.2)
        if kind == "shuffle":
            self.records = self.chance.sample(self.records, len(self.records))
        else:
            self.records = before if kind == "truncate" else [*before, *new, *behind[len(new) * (kind == "replace") :]]
        self.write()
        return f"{kind} at {at}"
