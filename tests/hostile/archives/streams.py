"""Compressed streams that ask for more memory than they need; a zstd writer (stored blocks, and runs of one byte)."""

from __future__ import annotations

import lzma
import struct
import zlib

from hostile.archives.zips import zip_lzma

ZSTD_MAGIC = 0xFD2FB528
BLOCK_MAX = 128 << 10  # bytes of one zstd block
RAW, RUN = 0, 1  # kinds of zstd blocks


def zstd(data: bytes, *, window: int | None = None, content: int | None = None) -> bytes:
    """Returns a zstd frame of blocks that are not compressed; `window` and `content` are what its header claims.

    A window byte holds an exponent (upper 5 bits, over 2^10) and eighths of it.
    """
    pieces = [data[at : at + BLOCK_MAX] for at in range(0, len(data), BLOCK_MAX)] or [b""]
    blocks = [(RAW, len(piece), piece) for piece in pieces]
    return zstd_frame(blocks, window=window, content=len(data) if content is None else content)


def zstd_zeros(size: int, *, window: int | None = None) -> bytes:
    """Returns a zstd frame of zeros: 4 bytes for each 128 KiB, a ratio of 32,768."""
    full, rest = divmod(size, BLOCK_MAX)
    return zstd_frame([(RUN, BLOCK_MAX, b"\0")] * full + [(RUN, rest, b"\0")], window=window, content=size)


def zstd_frame(blocks: list[tuple[int, int, bytes]], *, window: int | None, content: int) -> bytes:
    """Returns a frame of these blocks: kind, size, and the bytes that stand for it."""
    window = 17 - 10 << 3 if window is None else window  # 128 KiB, the largest block
    head = struct.pack("<IBBQ", ZSTD_MAGIC, 3 << 6, window, content)  # 3 << 6: the content's size in 8 bytes
    last = len(blocks) - 1
    body = b"".join(
        ((number == last) | kind << 1 | size << 3).to_bytes(3, "little") + piece
        for number, (kind, size, piece) in enumerate(blocks)
    )
    return head + body


def lzma_with_dictionary(data: bytes, dictionary: int) -> bytes:
    """Returns what zip method 14 holds, with properties that claim this size of a dictionary."""
    packed = zip_lzma(data)
    return packed[:5] + struct.pack("<I", dictionary) + packed[9:]


def xz_with_dictionary(data: bytes, code: int, packed: bytes | None = None) -> bytes:
    """Returns an xz stream whose block header claims this size of a dictionary (40: 4 GiB - 1; 36: 1 GiB)."""
    packed = packed or lzma.compress(
        data, check=lzma.CHECK_CRC32, filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 16}]
    )
    length = (packed[12] + 1) * 4  # the block header follows the 12 bytes of the stream's
    header = bytearray(packed[12 : 12 + length])
    at = header.index(b"\x21\x01", 2) + 2  # LZMA2, one byte of properties
    header[at] = code
    header[-4:] = struct.pack("<I", zlib.crc32(bytes(header[:-4])))
    return packed[:12] + bytes(header) + packed[12 + length :]
