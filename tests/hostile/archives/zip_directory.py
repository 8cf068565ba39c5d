"""Zip archives whose directory or whose records at the end lie, and some that look so and do not."""

from __future__ import annotations

import struct
from dataclasses import replace

from hostile.archives.case import DAMAGED, Case, Expected, either, refused, unpacked
from hostile.archives.zips import (
    ALL_16,
    ALL_32,
    DEFLATED,
    STORED,
    UTF8,
    Entry,
    build,
    end_of,
    extra,
    lay_out,
    plain,
    zip64_end,
    zip64_extra,
)

GOOD = {"one.txt": b"one\n" * 50, "two/two.bin": bytes(range(256)) * 4, "three": b""}
ENTRIES = plain(GOOD)
SIGNATURES = b"PK\x05\x06"
HUGE_COMMENT = b"c" * 65_535


def with_end(**lies: int) -> bytes:
    """The good archive, with a record at the end that lies."""
    return build(ENTRIES, end=lies)


def with_zip64(zip64: dict[str, int] | None = None, locator: dict[str, int] | None = None, **end: int) -> bytes:
    """The good archive with zip64 records, to which the record at the end points."""
    sentinels = {"entries_here": ALL_16, "entries": ALL_16, "size": ALL_32, "offset": ALL_32} | end
    return build(ENTRIES, end=sentinels, zip64=zip64 or {}, locator=locator)


def wide(entry: Entry, *values: int, **lies: int) -> Entry:
    """The entry with 64-bit sizes in its directory entry, or those given."""
    fields = entry.fields()
    sizes = values or (fields["size"], fields["packed"])
    return replace(entry, central={"size": ALL_32, "packed": ALL_32, "extra": zip64_extra(*sizes), **lies})


def end_in_the_comment() -> bytes:
    """Two records at the end, each of which reaches exactly to the end of the file: which one counts?"""
    other, _ = lay_out(plain({"other.txt": b"other"}))
    data, offsets = lay_out(ENTRIES, len(other))
    directory = b"".join(entry.central_header(at) for entry, at in zip(ENTRIES, offsets, strict=True))
    hidden_directory = plain({"other.txt": b"other"})[0].central_header(0)
    start = len(other) + len(data)
    second = end_of(hidden_directory, 1, start)
    first = end_of(directory, len(ENTRIES), start + len(hidden_directory), comment=second)
    return other + data + hidden_directory + directory + first


def refused_directories() -> list[Case]:
    """Archives in which nothing can be believed: no entry is touched."""
    good = build(ENTRIES)
    past = len(good) + 1000
    return [
        refused("empty-file", b""),
        refused("not-an-archive", b"this is not an archive\n" * 20),
        refused("only-a-local-header", ENTRIES[0].local_header() + ENTRIES[0].body),
        refused("local-magic-and-zeros", b"PK\x03\x04" + bytes(1000)),
        refused("end-record-cut", good[:-1]),
        refused("end-record-without-directory", end_of(b"", 1, 0)),
        refused("count-too-high", with_end(entries=4, entries_here=4)),
        refused("count-too-low", with_end(entries=2, entries_here=2)),
        refused("count-of-65534", with_end(entries=65_534, entries_here=65_534)),
        refused("counts-that-differ", with_end(entries_here=1)),
        refused("count-of-65535-without-zip64", with_end(entries=ALL_16, entries_here=ALL_16)),
        refused("directory-past-the-end", with_end(offset=past)),
        refused("directory-offset-of-4-gib", with_end(offset=ALL_32 - 1)),
        refused("directory-size-of-4-gib", with_end(size=ALL_32 - 1)),
        refused("directory-longer-than-the-file", with_end(size=past)),
        refused("directory-too-short", with_end(size=60)),
        refused("directory-of-no-bytes", with_end(size=0)),
        refused("sentinels-without-zip64", with_end(entries=ALL_16, entries_here=ALL_16, size=ALL_32, offset=ALL_32)),
        refused("other-disk", with_end(disk=1, directory_disk=1)),
        refused("directory-on-another-disk", with_end(directory_disk=3)),
        refused("comment-longer-than-the-file", with_end(comment_length=100)),
        refused("directory-of-nonsense", build([replace(e, central={"signature": 0x12345678}) for e in ENTRIES])),
        refused("name-longer-than-the-directory", build([replace(ENTRIES[0], central={"name_length": 60_000})])),
        refused("extra-longer-than-the-directory", build([replace(ENTRIES[0], central={"extra_length": 60_000})])),
        refused("comment-longer-than-the-directory", build([replace(ENTRIES[0], central={"comment_length": 60_000})])),
        refused("header-past-the-end", build(ENTRIES, offsets=[0, past, past])),
        refused("header-in-the-directory", build(ENTRIES[:1], offsets=[len(build(ENTRIES[:1])) - 40])),
        *refused_zip64(past),
    ]


def refused_zip64(past: int) -> list[Case]:
    """The same, for the 64-bit records."""
    top = (1 << 64) - 1
    return [
        refused("zip64-count-of-4-gi", with_zip64({"entries": 1 << 32, "entries_here": 1 << 32})),
        refused("zip64-count-of-all-ones", with_zip64({"entries": top, "entries_here": top})),
        refused("zip64-count-too-high", with_zip64({"entries": 4, "entries_here": 4})),
        refused("zip64-directory-past-the-end", with_zip64({"offset": past})),
        refused("zip64-offset-of-all-ones", with_zip64({"offset": top})),
        refused("zip64-size-of-all-ones", with_zip64({"size": top})),
        refused("zip64-offset-and-size-wrap", with_zip64({"offset": top - 10, "size": 200})),
        refused("zip64-locator-past-the-end", with_zip64(locator={"offset": past})),
        refused("zip64-locator-of-all-ones", with_zip64(locator={"offset": top})),
        refused("zip64-locator-elsewhere", with_zip64(locator={"offset": 3})),
        refused("zip64-locator-of-two-disks", with_zip64(locator={"disks": 2})),
        refused("zip64-other-disk", with_zip64({"disk": 1, "directory_disk": 1})),
        refused("zip64-record-of-another-kind", with_zip64({"signature": 0x06064B51})),
        refused("zip64-record-size-of-all-ones", with_zip64({"record_size": top})),
        refused("zip64-record-size-of-0", with_zip64({"record_size": 0})),
        # CVE-2025-8291: with a locator, some readers believe the 64-bit record and some the 32-bit one.
        refused("zip64-contradicts-the-end", with_zip64({"entries": 1, "entries_here": 1}, entries=3, entries_here=3)),
        refused("zip64-offset-contradicts-the-end", with_zip64({"offset": 10}, offset=len(lay_out(ENTRIES)[0]))),
        refused("zip64-hidden-behind-the-end", zip64_that_only_some_see()),
    ]


def zip64_that_only_some_see() -> bytes:
    """An end record with no sentinel, before it 64-bit records that name another directory."""
    hidden = plain({"hidden.txt": b"hidden"})
    data, offsets = lay_out([*hidden, *ENTRIES])
    first = hidden[0].central_header(0)
    directory = b"".join(entry.central_header(at) for entry, at in zip(ENTRIES, offsets[1:], strict=True))
    records = zip64_end(first, 1, len(data), locator={"offset": len(data) + len(first) + len(directory)})
    return data + first + directory + records + end_of(directory, len(ENTRIES), len(data) + len(first))


def undecided_directories() -> list[Case]:
    """Archives that one may refuse or read in the one way that their records allow."""
    whole = Expected(GOOD)
    nothing = Expected(refused=DAMAGED)
    # Offsets of a second archive behind a first one count from its own start, as behind any prefix.
    second = {"second.txt": b"second"}
    two = build(plain(second))
    return [
        either("archive-behind-an-empty-one", build([]) + two, Expected(second)),
        either("end-in-the-comment", end_in_the_comment(), nothing),
        either("archive-behind-an-archive", build(ENTRIES) + two, Expected(second, {"x.zip": DAMAGED})),
        either("signature-in-the-comment", build(ENTRIES, comment=b"about PK\x05\x06 and so on" * 3), whole, nothing),
        either("bytes-behind-the-end", build(ENTRIES) + bytes(100), whole, nothing),
        either("newline-behind-the-end", build(ENTRIES) + b"\n", whole, nothing),
        either("bytes-before-the-end", build(ENTRIES, after_directory=bytes(16)), whole, nothing),
        either("zip64-with-more-in-it", build(ENTRIES, zip64={"record_size": 44 + 20}), nothing, whole),
        either("zip64-for-nothing", build(ENTRIES, zip64={}), whole),
    ]


def odd_directories() -> list[Case]:
    """Archives that are odd, or large in one way, and true."""
    between = build(ENTRIES, between=b"PK\x03\x04 not a header ", before_directory=b"PK\x01\x02")
    stub = b"#!/bin/sh\nexec unzip $0\n"
    return [
        unpacked("good", build(ENTRIES), GOOD),
        unpacked("good-stored", build(plain(GOOD, STORED)), GOOD),
        unpacked("no-entries", build([]), {}),
        unpacked("no-entries-and-a-comment", build([], comment=b"nothing"), {}),
        unpacked("huge-comment", build(ENTRIES, comment=HUGE_COMMENT), GOOD),
        unpacked("comment-of-signatures", build(ENTRIES, comment=b"PK\x01\x02" * 16_000), GOOD),
        unpacked("prefixed", build(ENTRIES, prefix=stub), GOOD),
        unpacked("prefixed-and-not-adjusted", build(ENTRIES, prefix=stub, adjusted=False), GOOD),
        unpacked("bytes-between-the-entries", between, GOOD),
        unpacked("order-of-the-directory", reordered(), GOOD),
        unpacked("zip64", with_zip64(), GOOD),
        unpacked("zip64-sizes", build([wide(entry) for entry in ENTRIES]), GOOD),
        unpacked("zip64-sizes-in-both", build([wide_in_both(entry) for entry in ENTRIES]), GOOD),
        unpacked("comments-of-entries", build([replace(entry, comment=b"c" * 1000) for entry in ENTRIES]), GOOD),
        unpacked(
            "unknown-extra", build([replace(entry, central_extra=extra(0xBEEF, b"x")) for entry in ENTRIES]), GOOD
        ),
        unpacked("utf8-flag", build([replace(entry, flags=UTF8) for entry in ENTRIES]), GOOD),
        unpacked("other-versions", build([replace(e, central={"version": 10, "made_by": 0}) for e in ENTRIES]), GOOD),
    ]


def reordered() -> bytes:
    """The directory lists the entries in the opposite order of their data."""
    data, offsets = lay_out(ENTRIES)
    pairs = list(zip(ENTRIES, offsets, strict=True))[::-1]
    directory = b"".join(entry.central_header(at) for entry, at in pairs)
    return data + directory + end_of(directory, len(pairs), len(data))


def wide_in_both(entry: Entry) -> Entry:
    """The entry with 64-bit sizes in both headers."""
    fields = entry.fields()
    both = {"size": ALL_32, "packed": ALL_32, "extra": zip64_extra(fields["size"], fields["packed"])}
    return replace(entry, local=both, central=both)


def zip64_fields() -> list[Case]:
    """Entries whose 64-bit field is missing, short or absurd: the entry fails, or the archive as a whole."""
    bad = Entry(b"bad", b"bad" * 100, DEFLATED)
    good = {"one.txt": GOOD["one.txt"], "three": b""}
    sizes = {"size": ALL_32, "packed": ALL_32}
    right, wrong = zip64_extra(300, len(bad.body)), zip64_extra(299, len(bad.body))
    variants = {
        "sentinel-without-extra": replace(bad, central={"size": ALL_32, "packed": ALL_32}),
        "sentinel-and-empty-extra": replace(bad, central={"size": ALL_32, "packed": ALL_32, "extra": extra(1, b"")}),
        "sentinel-and-short-extra": replace(bad, central={"size": ALL_32, "extra": extra(1, b"1234")}),
        "sentinel-and-lying-length": replace(bad, central={"size": ALL_32, "extra": extra(1, b"", length=8)}),
        "extra-of-all-ones": wide(bad, (1 << 64) - 1, (1 << 64) - 1),
        "extra-that-wraps": wide(bad, 300, (1 << 64) - 20),
        "extra-size-lies": wide(bad, 299, len(bad.body)),
        "offset-sentinel-without-extra": replace(bad, central={"offset": ALL_32}),
        "offset-past-the-end": replace(bad, central={"offset": ALL_32, "extra": zip64_extra(1 << 40)}),
        "offset-that-wraps": replace(bad, central={"offset": ALL_32, "extra": zip64_extra((1 << 64) - 4)}),
        "disk-sentinel": replace(bad, central={"disk": ALL_16, "extra": extra(1, struct.pack("<I", 7))}),
        "other-disk": replace(bad, central={"disk": 1}),
        "two-fields": replace(bad, central={**sizes, "extra": right + wrong}),
        "two-fields-the-last-is-right": replace(bad, central={**sizes, "extra": wrong + right}),
        "two-fields-that-agree": replace(bad, central={**sizes, "extra": right + right}),
        "two-fields-in-front-of-the-entry": replace(bad, local={**sizes, "extra": right + wrong}),
        "extra-field-beyond-the-area": replace(bad, central={"extra": extra(0xBEEF, b"xx", length=60_000)}),
    }
    return [
        either(
            name,
            build([ENTRIES[0], entry, ENTRIES[2]]),
            Expected(good, {"bad": DAMAGED | {"too-large"}}),
            Expected(refused=DAMAGED | {"too-large"}),
        )
        for name, entry in variants.items()
    ]


def padded_extra() -> Case:
    """Zeros too few to be a field, as tools that align data leave them: harmless, and common."""
    entries = [replace(entry, local_extra=bytes(3)) for entry in ENTRIES]
    return either("padding-in-extra", build(entries), Expected(GOOD))
