"""Writes zip archives in which any field may lie (APPNOTE.TXT 6.3.10).

An `Entry` is honest until told otherwise: `local` and `central` replace fields of one header each, by the names below,
and `build` takes the same for the records at the end. Sizes that are not given are those of the data.
"""

from __future__ import annotations

import bz2
import lzma
import stat
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

STORED, DEFLATED, BZIP2, LZMA, ZSTD, XZ = 0, 8, 12, 14, 93, 95
ENCRYPTED, DESCRIPTOR, STRONG, UTF8 = 1 << 0, 1 << 3, 1 << 6, 1 << 11  # bits of the flags
UNIX = 3 << 8  # "made by": external attributes hold a mode
END_MARKER = 1 << 1  # an LZMA stream that ends with a marker
DATE = (2020 - 1980) << 9 | 1 << 5 | 1
ALL_16, ALL_32 = 0xFFFF, 0xFFFFFFFF  # "see the zip64 field"
LIES = Mapping[str, Any]

LOCAL_FIELDS = "signature version flags method time date crc packed size name_length extra_length"
CENTRAL_FIELDS = (
    "signature made_by version flags method time date crc packed size name_length extra_length comment_length disk "
    "internal external offset"
)
END_FIELDS = "signature disk directory_disk entries_here entries size offset comment_length"
END64_FIELDS = "signature record_size made_by version disk directory_disk entries_here entries size offset"
LOCATOR_FIELDS = "signature disk offset disks"


def record(form: str, names: str, values: Mapping[str, Any]) -> bytes:
    """Packs the named fields in their order."""
    return struct.pack(form, *(values[name] for name in names.split()))


def deflate(data: bytes, level: int = 9) -> bytes:
    """Returns a raw deflate stream."""
    packer = zlib.compressobj(level, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def zip_lzma(data: bytes, dictionary: int = 1 << 16) -> bytes:
    """Returns what method 14 holds: version, length and properties, then an LZMA1 stream that ends with a marker."""
    filters = [{"id": lzma.FILTER_LZMA1, "dict_size": dictionary, "lc": 3, "lp": 0, "pb": 2}]
    properties = struct.pack("<BI", (2 * 5 + 0) * 9 + 3, dictionary)
    return (
        struct.pack("<BBH", 9, 20, len(properties)) + properties + lzma.compress(data, lzma.FORMAT_RAW, filters=filters)
    )


PACKERS: dict[int, Callable[[bytes], bytes]] = {
    STORED: bytes,
    DEFLATED: deflate,
    BZIP2: bz2.compress,
    LZMA: zip_lzma,
    XZ: lzma.compress,
}


@dataclass(frozen=True)
class Entry:
    """One entry. `packed` are its bytes in the archive, made from `data` unless given."""

    name: bytes
    data: bytes = b""
    method: int = STORED
    packed: bytes | None = None
    flags: int = 0
    mode: int = stat.S_IFREG | 0o644
    crc: int | None = None
    size: int | None = None
    packed_size: int | None = None
    local_extra: bytes = b""
    central_extra: bytes = b""
    comment: bytes = b""
    descriptor: bytes = b""
    local: LIES = field(default_factory=dict)
    central: LIES = field(default_factory=dict)

    @property
    def body(self) -> bytes:
        """Returns the bytes between the local header and the descriptor."""
        return PACKERS[self.method](self.data) if self.packed is None else self.packed

    def fields(self) -> dict[str, Any]:
        """Returns what both headers say."""
        packed_size = len(self.body) if self.packed_size is None else self.packed_size
        return {
            "version": 20,
            "flags": self.flags | (END_MARKER if self.method == LZMA else 0),
            "method": self.method,
            "time": 0,
            "date": DATE,
            "crc": zlib.crc32(self.data) if self.crc is None else self.crc,
            "packed": packed_size,
            "size": len(self.data) if self.size is None else self.size,
        }

    def local_header(self) -> bytes:
        """Returns the header before the data. With a descriptor it holds zeros, as the format wants it."""
        values = {"signature": 0x04034B50, **self.fields()}
        if self.flags & DESCRIPTOR:
            values |= {"crc": 0, "packed": 0, "size": 0}
        name: bytes = self.local.get("name", self.name)
        extra: bytes = self.local.get("extra", self.local_extra)
        values |= {"name_length": len(name), "extra_length": len(extra), **self.local}
        return record("<IHHHHHIIIHH", LOCAL_FIELDS, values) + name + extra

    def central_header(self, offset: int) -> bytes:
        """Returns the entry of the central directory."""
        name: bytes = self.central.get("name", self.name)
        extra: bytes = self.central.get("extra", self.central_extra)
        values = {
            "signature": 0x02014B50,
            "made_by": UNIX | 30,
            **self.fields(),
            "name_length": len(name),
            "extra_length": len(extra),
            "comment_length": len(self.comment),
            "disk": 0,
            "internal": 0,
            "external": self.mode << 16,
            "offset": offset,
            **self.central,
        }
        return record("<IHHHHHHIIIHHHHHII", CENTRAL_FIELDS, values) + name + extra + self.comment


def extra(tag: int, data: bytes, *, length: int | None = None) -> bytes:
    """Returns one extra field; `length` lies."""
    return struct.pack("<HH", tag, len(data) if length is None else length) + data


def zip64_extra(*values: int) -> bytes:
    """Returns the extra field of sizes and offset that need 64 bits."""
    return extra(1, struct.pack(f"<{len(values)}Q", *values))


def unicode_path(raw: bytes, name: bytes, *, crc: int | None = None, version: int = 1) -> bytes:
    """Returns the extra field 0x7075: the name in UTF-8, bound to the raw one by a checksum."""
    return extra(0x7075, struct.pack("<BI", version, zlib.crc32(raw) if crc is None else crc) + name)


def described(entry: Entry, *, signature: bool = True, wide: bool = False, **lies: int) -> Entry:
    """Returns the entry with its sizes and checksum behind the data instead of before it."""
    values = entry.fields() | lies
    data = struct.pack("<IQQ" if wide else "<III", values["crc"], values["packed"], values["size"])
    return replace(entry, flags=entry.flags | DESCRIPTOR, descriptor=b"PK\x07\x08" * signature + data)


def lay_out(entries: Iterable[Entry], start: int = 0, between: bytes = b"") -> tuple[bytes, list[int]]:
    """Returns headers and data of all entries, and where each header lies."""
    parts: list[bytes] = []
    offsets = []
    for entry in entries:
        offsets.append(start)
        piece = entry.local_header() + entry.body + entry.descriptor + between
        parts.append(piece)
        start += len(piece)
    return b"".join(parts), offsets


def end_of(directory: bytes, entries: int, at: int, comment: bytes = b"", lies: LIES | None = None) -> bytes:
    """Returns the record at the end."""
    values = {
        "signature": 0x06054B50,
        "disk": 0,
        "directory_disk": 0,
        "entries_here": min(entries, ALL_16),
        "entries": min(entries, ALL_16),
        "size": len(directory),
        "offset": at,
        "comment_length": len(comment),
        **(lies or {}),
    }
    return record("<IHHHHIIH", END_FIELDS, values) + comment


def zip64_end(
    directory: bytes, entries: int, at: int, lies: LIES | None = None, locator: LIES | None = None, tail: bytes = b""
) -> bytes:
    """Returns the zip64 record and its locator, for a directory that lies at `at` and ends where they begin."""
    values = {
        "signature": 0x06064B50,
        "record_size": 44 + len(tail),
        "made_by": 45,
        "version": 45,
        "disk": 0,
        "directory_disk": 0,
        "entries_here": entries,
        "entries": entries,
        "size": len(directory),
        "offset": at,
        **(lies or {}),
    }
    found = {"signature": 0x07064B50, "disk": 0, "offset": at + len(directory), "disks": 1, **(locator or {})}
    return record("<IQHHIIQQQQ", END64_FIELDS, values) + tail + record("<IIQI", LOCATOR_FIELDS, found)


def build(
    entries: Sequence[Entry],
    *,
    prefix: bytes = b"",
    adjusted: bool = True,
    between: bytes = b"",
    before_directory: bytes = b"",
    after_directory: bytes = b"",
    comment: bytes = b"",
    end: LIES | None = None,
    zip64: LIES | None = None,
    locator: LIES | None = None,
    offsets: Sequence[int] | None = None,
) -> bytes:
    """Returns an archive.

    Args:
        entries: In the order of both the data and the directory.
        prefix: Bytes before everything, as of a self-extracting archive.
        adjusted: Offsets count from the start of the file, not from the end of the prefix.
        between: Bytes after each entry.
        before_directory: Bytes between the last entry and the directory.
        after_directory: Bytes between the directory and the records at the end.
        comment: The comment of the archive.
        end: Fields of the end record that lie.
        zip64: Fields of the zip64 record that lie; {} for an honest one, None for none.
        locator: Fields of the zip64 locator that lie.
        offsets: Where the directory says that each header lies.
    """
    start = len(prefix) if adjusted else 0
    data, found = lay_out(entries, start, between)
    data += before_directory
    directory = b"".join(
        entry.central_header(at) for entry, at in zip(entries, found if offsets is None else offsets, strict=True)
    )
    at = start + len(data)
    tail = b""
    if zip64 is not None:
        tail = zip64_end(directory, len(entries), at, zip64, locator)
    return prefix + data + directory + after_directory + tail + end_of(directory, len(entries), at, comment, end)


def plain(objects: Mapping[str, bytes], method: int = DEFLATED) -> list[Entry]:
    """Returns honest entries with these names and bytes."""
    return [
        Entry(name.encode(errors="surrogateescape"), data, method, flags=0 if name.isascii() else UTF8)
        for name, data in objects.items()
    ]
