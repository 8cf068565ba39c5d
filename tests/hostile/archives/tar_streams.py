"""Compressed tar archives: streams that break off, lie about their checksum, hold far more than they should."""

from __future__ import annotations

import gzip
import lzma
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace

from hostile.archives import streams
from hostile.archives.case import DAMAGED, REFUSED, Case, Expected, either, refused, unpacked
from hostile.archives.tars import Member, build, plain
from hostile.archives.zips import build as build_zip
from hostile.archives.zips import plain as plain_zip

OBJECTS = {"one": b"one" * 2000, "sub/two": bytes(range(256)) * 20, "three": b""}
TAR = build(plain(OBJECTS))
ENDINGS = {"gz": "x.tar.gz", "xz": "x.tar.xz", "zst": "x.tar.zst"}
MEMBER_ZEROS = 16 << 20  # bytes of zeros in one gzip member, of which many are put in a row


def gz(data: bytes, *, flags: int = 0, extra: bytes = b"", crc: int | None = None, size: int | None = None) -> bytes:
    """Returns a gzip member; `extra` is what its flags announce, `crc` and `size` lie."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    body = packer.compress(data) + packer.flush()
    head = struct.pack("<BBBBIBB", 0x1F, 0x8B, 8, flags, 0, 0, 255)
    checksum = zlib.crc32(data) if crc is None else crc
    return head + extra + body + struct.pack("<II", checksum, len(data) & 0xFFFFFFFF if size is None else size)


def packed(form: str, data: bytes) -> bytes:
    """Returns the data in one of the three formats."""
    if form == "gz":
        return gzip.compress(data, mtime=0)
    if form == "xz":
        return lzma.compress(data)
    return streams.zstd(data)


def good_streams() -> list[Case]:
    """Every format, under its own name and under another, since the first bytes tell."""
    half = len(TAR) // 2
    skippable = struct.pack("<II", 0x184D2A50, 100) + bytes(100)
    text = b"a name\0"
    variants = {
        "gz": (packed("gz", TAR), "x.tar.gz"),
        "xz": (packed("xz", TAR), "x.tar.xz"),
        "zst": (packed("zst", TAR), "x.tar.zst"),
        "gz-named-tar": (packed("gz", TAR), "x.tar"),
        "tar-named-gz": (TAR, "x.tar.gz"),
        "xz-named-gz": (packed("xz", TAR), "x.tar.gz"),
        "zip-named-tar": (build_zip(plain_zip(OBJECTS)), "x.tar"),
        "tar-named-zip": (TAR, "x.zip"),
        "gz-in-two-members": (gz(TAR[:half]) + gz(TAR[half:]), "x.tar.gz"),
        "gz-in-200-members": (b"".join(gz(TAR[at : at + 100]) for at in range(0, len(TAR), 100)), "x.tar.gz"),
        "gz-with-a-name": (gz(TAR, flags=8, extra=text), "x.tar.gz"),
        "gz-with-64-kib-extra": (gz(TAR, flags=4, extra=struct.pack("<H", 65_535) + bytes(65_535)), "x.tar.gz"),
        "xz-in-two-streams": (lzma.compress(TAR[:half]) + lzma.compress(TAR[half:]), "x.tar.xz"),
        "zst-in-two-frames": (streams.zstd(TAR[:half]) + streams.zstd(TAR[half:]), "x.tar.zst"),
        "zst-with-skippable": (streams.zstd(TAR[:half]) + skippable + streams.zstd(TAR[half:]), "x.tar.zst"),
    }
    return [unpacked(name, archive, OBJECTS, file=file) for name, (archive, file) in variants.items()]


def broken_streams() -> list[Case]:
    """Streams that are none, or whose trailer does not fit: what is not known to be right is not kept."""
    nonsense = b"\xff\xfe\xfd\xfc" * 100
    refusals = {
        "gz-checksum": (gz(TAR, crc=1), "x.tar.gz"),
        "gz-length": (gz(TAR, size=1), "x.tar.gz"),
        "gz-nonsense": (packed("gz", TAR)[:10] + nonsense, "x.tar.gz"),
        "gz-header-alone": (packed("gz", TAR)[:10], "x.tar.gz"),
        "gz-of-another-method": (b"\x1f\x8b\x07" + packed("gz", TAR)[3:], "x.tar.gz"),
        "gz-name-without-end": (b"\x1f\x8b\x08\x08" + bytes(6) + b"n" * 5000, "x.tar.gz"),
        "gz-in-gz": (packed("gz", packed("gz", TAR)), "x.tar.gz"),
        "gz-of-a-zip": (packed("gz", build_zip(plain_zip(OBJECTS))), "x.tar.gz"),
        "gz-of-nothing-known": (packed("gz", b"text\n" * 500), "x.tar.gz"),
        "xz-nonsense": (packed("xz", TAR)[:12] + nonsense, "x.tar.xz"),
        "xz-header-alone": (packed("xz", TAR)[:12], "x.tar.xz"),
        "xz-checksum": (broken_xz(), "x.tar.xz"),
        "zst-nonsense": (packed("zst", TAR)[:14] + nonsense, "x.tar.zst"),
        "zst-magic-alone": (packed("zst", TAR)[:4], "x.tar.zst"),
        "zst-dictionary": (b"\x28\xb5\x2f\xfd\x03" + bytes(4) + packed("zst", TAR)[6:], "x.tar.zst"),
        "zst-reserved-block": (streams.zstd_frame([(3, 10, b"x" * 10)], window=None, content=10), "x.tar.zst"),
    }
    return [refused(name, archive, file=file) for name, (archive, file) in refusals.items()]


def broken_xz() -> bytes:
    """An xz stream whose content does not match its checksum, which stands before the index."""
    whole = lzma.compress(TAR, check=lzma.CHECK_CRC64)
    index = (struct.unpack_from("<I", whole, len(whole) - 8)[0] + 1) * 4
    at = len(whole) - 12 - index - 1
    return whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]


def odd_tails() -> list[Case]:
    """What may stand behind a stream: nothing of it is unpacked; whether it is an error may be argued."""
    arrived = Expected(OBJECTS)
    failed = Expected(OBJECTS, refused=DAMAGED)
    whole = Expected(refused=DAMAGED)
    cases = []
    for form, file in ENDINGS.items():
        for name, tail in {"zeros": bytes(64), "garbage": b"garbage!" * 20}.items():
            ends = (arrived, failed, whole)
            cases.append(either(f"{form}-and-{name}", packed(form, TAR) + tail, *ends, file=file))
    return cases


def stream_bombs() -> list[Case]:
    """Streams of gigabytes in megabytes: refused by ratio as soon as it shows, not when all has been unpacked."""
    terabyte = Member(b"zeros", fields={"size": b"\x80" + (1 << 40).to_bytes(11, "big")})
    too_many = ("--max-entries", "9999")

    def zeros(count: int, size: int) -> Callable[[], bytes]:
        return lambda: gz(Member(b"zeros", size=size).header()) + gz(bytes(MEMBER_ZEROS)) * count

    def run() -> bytes:
        return streams.zstd(terabyte.header()) + streams.zstd_zeros(64 << 30)

    def members() -> bytes:
        return gz(b"".join(Member(b"%07d" % number).header() for number in range(10_001)))

    return [
        refused("gz-of-200-mb", zeros(12, 12 * MEMBER_ZEROS), said=["--max-ratio"], file="x.tar.gz"),
        refused("gz-of-8-gib", zeros(512, 512 * MEMBER_ZEROS - 1), said=["--max-ratio"], file="x.tar.gz"),
        refused("zst-of-64-gib", run, said=["--max-ratio"], file="x.tar.zst"),
        refused("gz-of-10001-members", members, *too_many, said=["--max-entries"], file="x.tar.gz"),
        either(
            "gz-that-claims-1-tib",
            gz(claim(1 << 40)),
            Expected(refused=REFUSED),
            Expected(failed={"claims": DAMAGED | REFUSED}),
            file="x.tar.gz",
        ),
    ]


def claim(size: int) -> bytes:
    """A member that claims this size, and has a few bytes."""
    return replace(Member(b"claims", b"few"), fields={"size": b"\x80" + size.to_bytes(11, "big")}).block()


def memory_bombs() -> list[Case]:
    """Streams that ask for gigabytes of memory: refused, or unpacked within the memory allowed."""
    asked = {
        "xz-dictionary-of-4-gib": (streams.xz_with_dictionary(TAR, 40), "x.tar.xz"),
        "xz-dictionary-of-1-gib": (streams.xz_with_dictionary(TAR, 36), "x.tar.xz"),
        "zst-window-of-3-tib": (streams.zstd(TAR, window=0xFF), "x.tar.zst"),
        "zst-window-of-1-gib": (streams.zstd(TAR, window=20 << 3), "x.tar.zst"),
        "zst-content-of-all-ones": (streams.zstd(TAR, content=(1 << 64) - 1), "x.tar.zst"),
    }
    kinds = REFUSED | DAMAGED | {"unsupported"}
    return [
        either(name, archive, Expected(refused=kinds), Expected(OBJECTS), file=file)
        for name, (archive, file) in asked.items()
    ]
