"""Zip archives with one entry that lies or cannot be unpacked, between good ones that arrive all the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hostile.archives import streams
from hostile.archives.case import DAMAGED, UNSUPPORTED, Case, Expected, either
from hostile.archives.zips import (
    ALL_32,
    BZIP2,
    DEFLATED,
    DESCRIPTOR,
    ENCRYPTED,
    LZMA,
    STORED,
    STRONG,
    UTF8,
    XZ,
    ZSTD,
    Entry,
    build,
    deflate,
    described,
    extra,
)

FIRST, LAST = Entry(b"first", b"first" * 30, DEFLATED), Entry(b"sub/last", b"last", STORED)
GOOD = {"first": FIRST.data, "sub/last": LAST.data}
TEXT = b"".join(b"%05d and some text that repeats itself\n" % number for number in range(200))
SIZE_LIES = DAMAGED | {"too-large"}


def between(entry: Entry) -> bytes:
    """The entry between two good ones."""
    return build([FIRST, entry, LAST])


def fails(name: str, entry: Entry, kinds: frozenset[str], *said: str) -> Case:
    """The entry fails alone. (An archive in which it also lies over its neighbour may be refused as a whole.)"""
    return either(name, between(entry), Expected(GOOD, {entry.name.decode(): kinds}, said=said))


def fails_or_all(name: str, entry: Entry, kinds: frozenset[str]) -> Case:
    """The entry fails alone, or the archive as a whole."""
    alone, whole = Expected(GOOD, {entry.name.decode(): kinds}), Expected(refused=kinds)
    return either(name, between(entry), alone, whole)


def arrives(name: str, entry: Entry, *other: Expected) -> Case:
    """The entry arrives; or the other end, if given."""
    return either(name, between(entry), Expected(GOOD | {entry.name.decode(): entry.data}), *other)


def local_headers_that_differ() -> list[Case]:
    """Z4: the local header says something else than the directory."""
    entry = Entry(b"bad", TEXT, DEFLATED)
    packed = len(entry.body)
    lies: Mapping[str, Mapping[str, object]] = {
        "name": {"name": b"dab"},
        "longer-name": {"name": b"../bad"},
        "shorter-name": {"name": b"ba"},
        "no-name": {"name": b""},
        "case-of-the-name": {"name": b"BAD"},
        "method": {"method": STORED},
        "unknown-method": {"method": 97},
        "size": {"size": len(TEXT) - 1},
        "size-of-0": {"size": 0},
        "size-of-4-gib": {"size": ALL_32 - 1},
        "packed-size": {"packed": packed - 1},
        "packed-size-beyond-the-file": {"packed": ALL_32 - 1},
        "all-sizes-0": {"size": 0, "packed": 0, "crc": 0},
        "checksum": {"crc": 0x12345678},
        "encrypted": {"flags": ENCRYPTED},
        "signature": {"signature": 0x04034B51},
        "name-length": {"name_length": 2},
        "name-length-beyond-the-file": {"name_length": 65_535},
        "extra-length": {"extra_length": 4},
        "extra-length-beyond-the-file": {"extra_length": 65_535},
    }
    cases = [fails_or_all(name, replace(entry, local=lie), DAMAGED | UNSUPPORTED) for name, lie in lies.items()]
    stored = Entry(b"bad", TEXT, STORED)
    return [
        *cases,
        # One reader takes these bytes for UTF-8, the other for code page 437.
        fails_or_all("utf8", Entry("bäd".encode(), TEXT, local={"flags": UTF8}), DAMAGED),
        fails_or_all("not-utf8", Entry("bäd".encode(), TEXT, flags=UTF8, local={"flags": 0}), DAMAGED),
        fails_or_all("stored-with-two-sizes", replace(stored, size=len(TEXT) - 4), SIZE_LIES),
        # The data of the neighbour, under a name of its own: found by the name in the local header.
        either(
            "header-of-another-entry",
            build([FIRST, replace(FIRST, name=b"bad")], offsets=[0, 0]),
            Expected(refused=DAMAGED),
            Expected({"first": FIRST.data}, {"bad": DAMAGED}),
        ),
    ]


def harmless_differences() -> list[Case]:
    """What may differ: times, versions, and extra fields, which are not the same in both headers anyway."""
    entry = Entry(b"entry", TEXT, DEFLATED)
    return [
        # Bytes behind the end of a stream belong to nobody; other readers pass over them.
        arrives("packed-goes-on", replace(entry, packed=entry.body + b"tail"), Expected(GOOD, {"entry": DAMAGED})),
        arrives("utf8-of-an-ascii-name", replace(entry, local={"flags": UTF8}), Expected(GOOD, {"entry": DAMAGED})),
        # Tools that rewrite a directory drop this flag; sizes and checksum are in both headers all the same.
        arrives("descriptor", replace(entry, local={"flags": DESCRIPTOR}), Expected(GOOD, {"entry": DAMAGED})),
        arrives("other-time", replace(entry, local={"time": 77, "date": 7777})),
        arrives("other-version", replace(entry, local={"version": 10})),
        arrives("other-extra", replace(entry, local_extra=extra(0x5455, b"\x01abcd"), central_extra=b"")),
        arrives("local-extra-of-64-kib", replace(entry, local_extra=extra(0xBEEF, bytes(65_000)))),
    ]


def sizes_that_lie() -> list[Case]:
    """Both headers agree, and the bytes are more or fewer."""
    entry = Entry(b"bad", TEXT, DEFLATED)
    packed = entry.body
    return [
        fails("declared-one-too-small", replace(entry, size=len(TEXT) - 1), SIZE_LIES),
        fails("declared-one-too-large", replace(entry, size=len(TEXT) + 1), SIZE_LIES),
        fails("declared-0", replace(entry, size=0), SIZE_LIES),
        fails("declared-0-with-checksum-0", replace(entry, size=0, crc=0), SIZE_LIES),
        # The checksum is that of the first 10 bytes: who stops at the declared size finds nothing wrong.
        fails("declared-small-with-its-checksum", replace(entry, data=TEXT[:10], packed=packed), SIZE_LIES),
        fails("stored-and-declared-larger", Entry(b"bad", TEXT, STORED, size=len(TEXT) + 10), SIZE_LIES),
        fails("stored-and-declared-smaller", Entry(b"bad", TEXT, STORED, size=len(TEXT) - 10), SIZE_LIES),
        fails("packed-cut-short", replace(entry, packed=packed, packed_size=len(packed) - 5), SIZE_LIES),
        fails("packed-of-0", replace(entry, packed=b"", packed_size=0), SIZE_LIES),
        fails_or_all("packed-runs-into-the-next", replace(entry, packed_size=len(packed) + 5), SIZE_LIES),
        fails_or_all("packed-beyond-the-file", replace(entry, packed_size=ALL_32 - 1), SIZE_LIES),
        fails("8-mib-declared-too-small", large(-1), SIZE_LIES),
        fails("8-mib-declared-too-large", large(+1), SIZE_LIES),
    ]


def large(lie: int) -> Entry:
    """An entry that is too large to be unpacked in one go, with a declared size that lies."""
    data = TEXT * (9_000_000 // len(TEXT))
    return Entry(b"bad", data, DEFLATED, packed=deflate(data, 6), size=len(data) + lie)


def checksums_that_lie() -> list[Case]:
    """The bytes are as many as declared, and other ones."""
    whole = large(0)
    return [
        *(
            fails(f"method-{method}", Entry(b"bad", TEXT, method, crc=0x12345678), DAMAGED)
            for method in (STORED, DEFLATED, BZIP2, LZMA, XZ)
        ),
        fails("zeros-for-the-empty", Entry(b"bad", b"", STORED, crc=1), DAMAGED),
        fails("8-mib", replace(whole, crc=0x12345678), DAMAGED),
    ]


def broken_streams() -> list[Case]:
    """Compressed bytes that are none, or break off, or go on, in every method."""
    cases = []
    for method in (DEFLATED, BZIP2, LZMA, XZ, ZSTD):
        good = streams.zstd(TEXT) if method == ZSTD else Entry(b"", TEXT, method).body
        middle = len(good) // 2
        variants = {
            "nonsense": b"\xff\xfe\xfd\xfc" * 50,
            "zeros": bytes(200),
            "cut": good[:middle],
            "first-byte-only": good[:1],
            "empty": b"",
            "hole": good[:middle] + bytes(8) + good[middle + 8 :],
        }
        cases += [
            fails(f"method-{method}-{name}", Entry(b"bad", TEXT, method, packed=packed), DAMAGED)
            for name, packed in variants.items()
        ]
    return cases


def memory_bombs() -> list[Case]:
    """Streams that ask for a window or dictionary of gigabytes; refused, or unpacked within the memory allowed."""
    asked = {
        "lzma-dictionary-of-4-gib": Entry(b"bad", TEXT, LZMA, packed=streams.lzma_with_dictionary(TEXT, ALL_32)),
        "xz-dictionary-of-4-gib": Entry(b"bad", TEXT, XZ, packed=streams.xz_with_dictionary(TEXT, 40)),
        "xz-dictionary-of-1-gib": Entry(b"bad", TEXT, XZ, packed=streams.xz_with_dictionary(TEXT, 36)),
        "zstd-window-of-3-tib": Entry(b"bad", TEXT, ZSTD, packed=streams.zstd(TEXT, window=0xFF)),
        "zstd-window-of-1-gib": Entry(b"bad", TEXT, ZSTD, packed=streams.zstd(TEXT, window=20 << 3)),
        "zstd-content-of-4-gib": Entry(b"bad", TEXT, ZSTD, packed=streams.zstd(TEXT, content=ALL_32 - 1)),
    }
    kinds = DAMAGED | UNSUPPORTED | {"too-large"}
    return [
        either(name, between(entry), Expected(GOOD, {"bad": kinds}), Expected(GOOD | {"bad": TEXT}))
        for name, entry in asked.items()
    ]


def not_supported() -> list[Case]:
    """S19: encrypted entries and methods that nobody knows."""
    entry = Entry(b"bad", TEXT, DEFLATED)
    sealed = replace(entry, packed=b"twelve bytes" + entry.body, flags=ENCRYPTED)
    return [
        fails("encrypted", sealed, UNSUPPORTED, "encrypted"),
        fails("encrypted-and-stored", Entry(b"bad", TEXT, STORED, flags=ENCRYPTED), UNSUPPORTED, "encrypted"),
        fails("strongly-encrypted", replace(sealed, flags=ENCRYPTED | STRONG), UNSUPPORTED, "encrypted"),
        fails("aes", replace(sealed, method=99, packed=bytes(40)), UNSUPPORTED),
        fails("encrypted-with-descriptor", described(sealed), UNSUPPORTED, "encrypted"),
        *(
            fails(f"method-{method}", Entry(b"bad", TEXT, method, packed=TEXT), UNSUPPORTED, str(method))
            for method in (1, 6, 10, 13, 18, 96, 98, 255, 65_535)
        ),
    ]


def directories_with_contents() -> list[Case]:
    """A name that ends in a slash, and bytes: programs drop them."""
    end = Expected(GOOD | {"d/x": b"x"}, {"d": DAMAGED}, said=["its name is that of a directory, but it has 6 bytes"])
    packed = [Entry(b"d/", b"six by", method) for method in (STORED, DEFLATED)]
    archives = [build([FIRST, entry, Entry(b"d/x", b"x"), LAST]) for entry in packed]
    return [either(f"directory-with-contents-{number}", archive, end) for number, archive in enumerate(archives)]


def descriptors() -> list[Case]:
    """Sizes and checksum behind the data: read from the directory, and held against what stands there, or not."""
    entry = Entry(b"entry", TEXT, DEFLATED)
    stored = Entry(b"entry", TEXT, STORED)
    failed = Expected(GOOD, {"entry": SIZE_LIES})
    whole = Expected(refused=DAMAGED)
    lying = {
        "checksum": described(entry, crc=1),
        "size": described(entry, size=1),
        "packed": described(entry, packed=1),
        "size-of-all-ones": described(entry, size=ALL_32),
        "missing": replace(entry, flags=DESCRIPTOR),
    }
    return [
        arrives("signed", described(entry)),
        arrives("unsigned", described(entry, signature=False)),
        arrives("wide", described(entry, wide=True)),
        arrives("wide-and-unsigned", described(entry, wide=True, signature=False)),
        arrives("stored", described(stored)),
        arrives("stored-and-unsigned", described(stored, signature=False)),
        arrives("empty", described(Entry(b"entry", b"", STORED))),
        # The directory is the truth, and the bytes are those that it promises: a wrong descriptor may be overlooked.
        *(arrives(f"lying-{name}", lie, failed, whole) for name, lie in lying.items()),
    ]
