"""Writes tar archives in which any field may lie: v7, ustar, pax, GNU long names and numbers in base 256.

A `Member` is honest until told otherwise: `fields` replaces raw fields of its header, by the names below, `size` what
it claims. What stands before a header to change it (`pax`, `long_name`) is a member like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

BLOCK = 512
END = bytes(2 * BLOCK)
FILE, HARD_LINK, SYMBOLIC_LINK, CHARACTER, DEVICE, DIRECTORY, FIFO, CONTIGUOUS = (b"%d" % number for number in range(8))
PAX, PAX_GLOBAL, LONG_NAME, LONG_LINK, SPARSE = b"x", b"g", b"L", b"K", b"S"
USTAR, GNU, V7 = b"ustar\x0000", b"ustar  \x00", bytes(8)

# Name and width of each field, in the order of the header.
FIELDS = {
    "name": 100,
    "mode": 8,
    "uid": 8,
    "gid": 8,
    "size": 12,
    "mtime": 12,
    "checksum": 8,
    "type": 1,
    "link": 100,
    "magic": 8,  # and version
    "user": 32,
    "group": 32,
    "major": 8,
    "minor": 8,
    "prefix": 155,
    "rest": 12,
}


def octal(value: int, width: int) -> bytes:
    """Returns a number as digits and a NUL."""
    return b"%0*o\0" % (width - 1, value)


def base_256(value: int, width: int) -> bytes:
    """Returns a number in two's complement, its first bit set to say so."""
    raw = bytearray((value % (1 << 8 * width)).to_bytes(width, "big"))
    raw[0] |= 0x80
    return bytes(raw)


@dataclass(frozen=True)
class Member:
    """One header and its data."""

    name: bytes
    data: bytes = b""
    type: bytes = FILE
    link: bytes = b""
    mode: int = 0o644
    size: int | None = None
    magic: bytes = USTAR
    fields: Mapping[str, bytes] = field(default_factory=dict)
    signed: bool = False  # the checksum adds bytes as signed numbers, as some old writers did
    padded: bool = True

    def header(self) -> bytes:
        """Returns the header; its checksum is right unless `fields` has one."""
        values = {
            "name": self.name[:100],
            "mode": octal(self.mode, 8),
            "uid": octal(0, 8),
            "gid": octal(0, 8),
            "size": octal(len(self.data) if self.size is None else self.size, 12),
            "mtime": octal(1_600_000_000, 12),
            "checksum": b" " * 8,
            "type": self.type,
            "link": self.link[:100],
            "magic": self.magic,
            **self.fields,
        }
        raw = b"".join(values.get(name, b"").ljust(width, b"\0")[:width] for name, width in FIELDS.items())
        if "checksum" in self.fields:
            return raw
        total = sum(byte - 256 if self.signed and byte > 127 else byte for byte in raw)
        return raw[:148] + b"%06o\0 " % total + raw[156:]

    def block(self) -> bytes:
        """Returns header and data, filled up to whole blocks."""
        fill = -len(self.data) % BLOCK if self.padded else 0
        return self.header() + self.data + bytes(fill)


def pax_record(key: bytes, value: bytes, *, length: bytes | None = None) -> bytes:
    """Returns one record, which begins with its own length; `length` lies."""
    rest = b" " + key + b"=" + value + b"\n"
    if length is not None:
        return length + rest
    total = len(rest) + 1
    while len(b"%d" % total) + len(rest) != total:
        total = len(b"%d" % total) + len(rest)
    return b"%d" % total + rest


def pax(records: Mapping[bytes, bytes] | bytes, *, kind: bytes = PAX, size: int | None = None) -> Member:
    """Returns the member that changes fields of the next one; its records, or the raw bytes in their place."""
    data = records if isinstance(records, bytes) else b"".join(pax_record(*item) for item in records.items())
    return Member(b"PaxHeaders/x", data, kind, size=size)


def long_name(name: bytes, *, kind: bytes = LONG_NAME, size: int | None = None) -> Member:
    """Returns the member that names the next one, or says where its link points."""
    return Member(b"././@LongLink", name + b"\0", kind, magic=GNU, size=size)


def named(name: bytes, data: bytes, how: str) -> list[Member]:
    """Returns the members that stand for a file of any name, written in one of three ways."""
    if how == "pax":
        return [pax({b"path": name}), Member(b"placeholder", data)]
    if how == "gnu":
        return [long_name(name), Member(name[:100], data, magic=GNU)]
    return [Member(name, data)]


def build(members: Iterable[Member], *, end: bytes = END) -> bytes:
    """Returns an archive."""
    return b"".join(member.block() for member in members) + end


def plain(objects: Mapping[str, bytes]) -> list[Member]:
    """Returns honest members with these names and bytes."""
    members: list[Member] = []
    for name, data in objects.items():
        raw = name.encode("utf-8", "surrogateescape")
        members += named(raw, data, "ustar" if len(raw) <= 100 else "pax")
    return members
