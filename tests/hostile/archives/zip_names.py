"""Zip archives whose names are written in code pages, or a second time in an extra field."""

from __future__ import annotations

from hostile.archives.case import DAMAGED, UNSAFE, Case, Expected, either, unpacked
from hostile.archives.names import ANY
from hostile.archives.zips import UTF8, Entry, build, unicode_path

DATA = b"data"
ANY_REFUSAL = ANY | DAMAGED | {"encoding", "unsupported"}


def one(raw: bytes, *, flags: int = 0, extra: bytes = b"") -> bytes:
    """An archive of one entry with this raw name."""
    return build([Entry(raw, DATA, flags=flags, local_extra=extra, central_extra=extra)])


def reads(name: str, raw: bytes, text: str, *options: str, flags: int = 0, extra: bytes = b"") -> Case:
    """The raw name becomes this text, in UTF-8 on disk."""
    return unpacked(name, one(raw, flags=flags, extra=extra), {text: DATA}, *options)


def is_refused(name: str, raw: bytes, shown: str, *options: str, flags: int = 0, extra: bytes = b"") -> Case:
    """The raw name becomes this text, which is refused."""
    return either(name, one(raw, flags=flags, extra=extra), Expected(failed={shown: UNSAFE}), options=options)


def on_disk(raw: bytes) -> str:
    """How Python names a file with these bytes for a name."""
    return raw.decode("utf-8", "surrogateescape")


def encodings() -> list[Case]:
    """Names that have one reading."""
    sjis = "表示/日本語ソ.txt"  # 表 and ソ end in the byte of a backslash
    return [
        reads("ascii", b"plain.txt", "plain.txt"),
        reads("cp437", b"\x81\x82\x99\xe1.txt", "üéÖß.txt"),
        reads("cp437-boxes", bytes(range(0xB0, 0xE0)), bytes(range(0xB0, 0xE0)).decode("cp437")),
        reads("cp437-greek", bytes(range(0xE0, 0x100)), bytes(range(0xE0, 0x100)).decode("cp437")),
        reads("utf8", "日本/ü.txt".encode(), "日本/ü.txt", flags=UTF8),
        reads("shift-jis", sjis.encode("shift_jis"), sjis, "--encoding", "shift_jis"),
        reads("gbk", "中文/文件".encode("gbk"), "中文/文件", "--encoding", "gbk"),
        reads("cp1252", b"\xfc\x80.txt", "ü€.txt", "--encoding", "windows-1252"),
        reads("utf8-by-option", "日本".encode(), "日本", "--encoding", "utf-8"),
        reads("flag-beats-option", "日本".encode(), "日本", "--encoding", "shift_jis", flags=UTF8),
        reads("unicode-path", b"\x8c\x8b", "ソ", extra=unicode_path(b"\x8c\x8b", "ソ".encode())),
        reads("unicode-path-of-another-name", b"\x81", "ü", extra=unicode_path(b"\x82", b"lie")),
        reads("unicode-path-of-version-2", b"\x81", "ü", extra=unicode_path(b"\x81", b"lie", version=2)),
    ]


def decoded_to_something_unsafe() -> list[Case]:
    """Names that are harmless as bytes and not once they are read."""
    up = "../x"
    return [
        is_refused("unicode-path-up", b"x", up, extra=unicode_path(b"x", up.encode())),
        is_refused("unicode-path-absolute", b"x", "/etc/x", extra=unicode_path(b"x", b"/etc/x")),
        is_refused("unicode-path-backslash", b"x", "a\\b", extra=unicode_path(b"x", b"a\\b")),
        is_refused("unicode-path-empty", b"x", "", extra=unicode_path(b"x", b"")),
        is_refused("raw-up", b"../x", up),
        is_refused("cp437-backslash", b"\x95\x5c", "ò\\"),
        is_refused("shift-jis-backslash", b"a\x5cb", "a\\b", "--encoding", "shift_jis"),
        # An escape sequence between the two dots is gone once it is decoded.
        is_refused("iso-2022-jp-up", b".\x1b(B./x", up, "--encoding", "iso-2022-jp"),
        is_refused("iso-2022-jp-up-2", b"\x1b(B../\x1b(Bx", up, "--encoding", "iso-2022-jp"),
    ]


def not_in_their_encoding() -> list[Case]:
    """Names whose bytes are not what they are said to be: kept byte for byte, or refused; never read as a way up."""
    raws = {
        "overlong-dots": b"\xc0\xae\xc0\xae/x",
        "overlong-slash": b"..\xc0\xafx",
        "lone-continuation": b"\x80\x81",
        "cut": "日".encode()[:2],
        "surrogates": b"\xed\xa0\x80",
        "beyond-unicode": b"\xf5\x80\x80\x80",
    }
    return [
        either(
            name,
            one(raw, flags=UTF8),
            Expected({on_disk(raw): DATA}),
            Expected(failed={on_disk(raw): ANY_REFUSAL}),
            Expected(refused=DAMAGED),
        )
        for name, raw in raws.items()
    ]


def unmarked_utf8() -> Case:
    """UTF-8 without the flag, as many Unix tools write it: as it stands, or in the code page of the format."""
    raw = "日本.txt".encode()
    return either("unmarked-utf8", one(raw), Expected({"日本.txt": DATA}), Expected({raw.decode("cp437"): DATA}))


def long_names() -> list[Case]:
    """Names of up to 65,535 bytes, which is what the format holds."""
    cases = {
        "a-component-of-65535": b"n" * 65_535,
        "components-of-65535": (b"0123456789abcde/" * 4096)[:65_534] + b"x",
        "slashes-of-65535": b"/" * 65_534 + b"x",
        "dots-of-65535": b"../" * 21_844 + b"xyz",
        "depth-of-2000": b"d/" * 2000 + b"x",
        "depth-of-101": b"d/" * 100 + b"x",
    }
    return [
        either(name, build([Entry(raw, DATA), Entry(b"good", DATA)]), Expected({"good": DATA}, {raw.decode(): ANY}))
        for name, raw in cases.items()
    ]
