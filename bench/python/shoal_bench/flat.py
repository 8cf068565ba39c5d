"""The flat file that the contestants of `records` work on: 16 bytes a record, `<QII`, named ts, id and len.

It is made in blocks of a million records. In each block every id of a million occurs once and every length of ten
thousand a hundred times; both are in an order that is unrelated to their values and is another one in each
block. Made by copying whole columns, since a loop over records would take a minute; what must come of it is added up
from the columns, without the file. Not here: the programs that read it (`jobs/records.py`).
"""

from __future__ import annotations

import functools
import os
import random
import zlib
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

FORMAT = "<QII"
NAMES = ("ts", "id", "len")
RECORD = 16  # bytes
BLOCK = 1_000_000  # records of a block, and ids
LENGTHS = 10_000  # that there are, from 1 on
ABOVE = 9_900  # which one length in a hundred is
EPOCH = 400_000  # the upper half of the first ts: as microseconds, a day in June 2024
TICK = 4_000  # between two ts, on the mean: so those of a block fit into the lower half
TURNS = (377_777, 123_457)  # records by which ids and lengths are turned against the block before
DENSE = 8  # bytes of a sum


class Columns(NamedTuple):
    """The records of a block, field by field; ts as the bytes of its numbers, which takes Python less time."""

    ts: bytes
    id: array[int]
    len: array[int]


@dataclass(frozen=True)
class Flat:
    """A flat file.

    Attributes:
        path: Where it is.
        count: Its records.
        proof: A checksum of its bytes.
        total: The sum of the lengths.
        last: The last record.
    """

    path: Path
    count: int
    proof: int
    total: int
    last: tuple[int, int, int]

    @property
    def size(self) -> int:
        """Its bytes."""
        return self.count * RECORD


@functools.cache
def _first() -> tuple[array[int], array[int], array[int]]:
    """Returns what all blocks are made of: the lower halves of ts, the ids, the lengths."""
    chance = random.Random(7)  # noqa: S311 (the same records each time)
    ids, lengths = list(range(BLOCK)), [1 + number % LENGTHS for number in range(BLOCK)]
    chance.shuffle(ids)
    chance.shuffle(lengths)
    lower = [number * TICK + ids[number] % TICK for number in range(BLOCK)]
    return array("I", lower), array("I", ids), array("I", lengths)


def _turned(column: array[int], by: int, rows: int) -> array[int]:
    """Returns the first rows of a column that begins somewhere else."""
    at = by % BLOCK
    return (column[at:] + column[:at])[:rows]


def blocks(count: int) -> Iterator[Columns]:
    """Yields so many records, block by block."""
    lower, ids, lengths = _first()
    for number in range(-(-count // BLOCK)):
        rows = min(BLOCK, count - number * BLOCK)
        halves = memoryview(bytearray(DENSE * rows)).cast("I")
        halves[0::2] = memoryview(lower)[:rows]
        halves[1::2] = memoryview(array("I", [EPOCH + number]) * rows)
        ts = halves.tobytes()
        yield Columns(ts, _turned(ids, number * TURNS[0], rows), _turned(lengths, number * TURNS[1], rows))


def make(path: Path, count: int) -> Flat:
    """Writes the first so many records to a new file, and sees to it that they are on the disk."""
    proof = total = 0
    last = (0, 0, 0)
    with path.open("xb") as file:
        for columns in blocks(count):
            rows = len(columns.id)
            words = memoryview(bytearray(RECORD * rows)).cast("I")
            halves = memoryview(columns.ts).cast("I")
            words[0::4], words[1::4] = halves[0::2], halves[1::2]
            words[2::4], words[3::4] = memoryview(columns.id), memoryview(columns.len)
            file.write(words)
            proof, total = zlib.crc32(words, proof), total + sum(columns.len)
            last = (int.from_bytes(columns.ts[-DENSE:], "little"), columns.id[-1], columns.len[-1])
        file.flush()
        os.fsync(file.fileno())
    return Flat(path, count, proof, total, last)


def chosen(count: int) -> Iterator[Columns]:
    """Yields the records whose length is above `ABOVE`, block by block."""
    for columns in blocks(count):
        places = [place for place, length in enumerate(columns.len) if length > ABOVE]
        ts = memoryview(columns.ts).cast("Q")
        yield Columns(
            array("Q", [ts[place] for place in places]).tobytes(),
            array("I", [columns.id[place] for place in places]),
            array("I", [columns.len[place] for place in places]),
        )


def proofs(columns: Iterable[Columns]) -> list[int]:
    """Returns a checksum of each column."""
    found = [0, 0, 0]
    for block in columns:
        ts, ids, lengths = block
        found = [zlib.crc32(ts, found[0]), zlib.crc32(ids, found[1]), zlib.crc32(lengths, found[2])]
    return found


@functools.cache
def column_proofs(count: int) -> list[int]:
    """Returns a checksum of each column of so many records."""
    return proofs(blocks(count))


def groups(count: int) -> tuple[int, int]:
    """Returns how many ids there are, and a checksum of the sums of their lengths: of each id, 0 if it is not there."""
    sums = [0] * BLOCK
    for columns in blocks(count):
        for one, length in zip(columns.id, columns.len, strict=True):
            sums[one] += length
    return sum(1 for one in sums if one), zlib.crc32(array("Q", sums))
