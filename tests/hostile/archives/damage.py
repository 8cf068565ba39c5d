"""Every way to cut an archive short and to change one byte of it; a zip and a tar with a bit of everything."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import replace

from hostile.archives import tars
from hostile.archives.zips import ALL_32, BZIP2, DEFLATED, STORED, UTF8, Entry, build, described, extra, zip64_extra

TEXT = b"".join(b"%03d a line that repeats itself\n" % number for number in range(12))


def cuts(archive: bytes) -> dict[str, bytes]:
    """Returns the archive cut short at every point."""
    return {f"cut-{length:05}": archive[:length] for length in range(len(archive))}


def flips(archive: bytes) -> dict[str, bytes]:
    """Returns the archive with each byte changed: all of its bits, and one of them."""
    changed = {}
    for at, byte in enumerate(archive):
        for form, mask in (("all", 0xFF), ("one", 1 << at % 8)):
            changed[f"flip-{at:05}-{form}"] = archive[:at] + bytes([byte ^ mask]) + archive[at + 1 :]
    return changed


def small_zip() -> tuple[bytes, dict[str, bytes]]:
    """Returns a zip of about 2 KiB, and the files in it."""
    wide = Entry(b"wide", b"wide sizes" * 4, DEFLATED)
    fields = wide.fields()
    sizes = {"size": ALL_32, "packed": ALL_32, "extra": zip64_extra(fields["size"], fields["packed"])}
    time = extra(0x5455, b"\x01\x00\x00\x00\x50")
    entries = [
        Entry(b"folder/", mode=stat.S_IFDIR | 0o755),
        Entry(b"folder/stored.txt", TEXT, STORED, local_extra=time, central_extra=time),
        Entry(b"folder/deflated.txt", TEXT * 2, DEFLATED, mode=stat.S_IFREG | 0o755),
        described(Entry(b"described.txt", TEXT[:200], DEFLATED)),
        Entry("ünïcode".encode(), b"utf-8", STORED, flags=UTF8),
        Entry(b"bzip2", TEXT, BZIP2, comment=b"a comment"),
        replace(wide, local=sizes, central=sizes),
        Entry(b"empty", b""),
        Entry(b"link", b"empty", mode=stat.S_IFLNK | 0o777),
    ]
    written = {e.name.decode(): e.data for e in entries if stat.S_ISREG(e.mode)}
    return build(entries, zip64={}), written


def small_tar() -> tuple[bytes, dict[str, bytes]]:
    """Returns a tar of about 5 KiB, which is as small as it gets, and the files in it."""
    objects = {"one.txt": TEXT, "folder/" + "long-name-" * 12: b"named by pax", "last": b"the end of it"}
    members = tars.plain(objects)
    folder = tars.Member(b"folder/", type=tars.DIRECTORY, mode=0o755)
    return tars.build([folder, *members], end=bytes(tars.BLOCK * 2)), objects


def attributes_of(archive: bytes) -> set[int]:
    """Returns the offsets of the fields that tell what an entry is: a change there makes it a link or a directory."""
    found = set()
    at = archive.find(b"PK\x01\x02")
    while at >= 0:
        found |= {at + 4, at + 5, *range(at + 38, at + 42)}
        at = archive.find(b"PK\x01\x02", at + 1)
    return found


def by_archive(found: Mapping[str, bytes]) -> dict[str, dict[str, bytes]]:
    """Returns the files of each archive, from those of a destination with a directory for each."""
    trees: dict[str, dict[str, bytes]] = {}
    for name, data in found.items():
        archive, _, rest = name.partition("/")
        trees.setdefault(archive, {})[rest] = data
    return trees
