"""Tar archives whose headers lie, break off, or are odd and true."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from hostile.archives.case import DAMAGED, UNSUPPORTED, Case, Expected, either, refused, unpacked
from hostile.archives.tars import (
    BLOCK,
    CONTIGUOUS,
    DIRECTORY,
    END,
    GNU,
    HARD_LINK,
    LONG_LINK,
    LONG_NAME,
    PAX,
    PAX_GLOBAL,
    SPARSE,
    SYMBOLIC_LINK,
    V7,
    Member,
    base_256,
    build,
    long_name,
    octal,
    pax,
    pax_record,
    plain,
)

FILE = "x.tar"
BEFORE = {"before-1": b"before 1" * 100, "sub/before-2": b"before 2"}
AFTER = {"after": b"after"}
DATA = b"data of the member\n" * 40
KINDS = DAMAGED | UNSUPPORTED | {"too-large", "unsafe-name"}
TOP = (1 << 64) - 1


def around(members: list[Member]) -> bytes:
    """The members between good ones."""
    return build([*plain(BEFORE), *members, *plain(AFTER)])


def arrives(name: str, members: list[Member], written: dict[str, bytes], *others: Expected) -> Case:
    """The members become these files."""
    return either(name, around(members), Expected(BEFORE | written | AFTER), *others, file=FILE)


def breaks(name: str, members: list[Member], *, kinds: Collection[str] = KINDS) -> Case:
    """From these members on nothing can be believed: what was before is there, and a failure stands for the rest."""
    failed = {"bad": kinds}
    ends = (Expected(BEFORE, refused=kinds), Expected(BEFORE, failed), Expected(BEFORE, failed, refused=kinds))
    return either(name, around(members), *ends, file=FILE)


def fails(name: str, members: list[Member], kinds: Collection[str] = KINDS, *others: Expected) -> Case:
    """The member fails alone; or what follows fails as well, if its length is in doubt."""
    return either(name, around(members), Expected(BEFORE | AFTER, {"bad": kinds}), *others, file=FILE)


def good_headers() -> list[Case]:
    """Archives that are odd in one way, and true."""
    member = Member(b"entry", DATA)
    arrived = {"entry": DATA}
    long = "long/" * 30 + "name"
    split = Member(b"n" * 100, DATA, fields={"prefix": b"p" * 100 + b"/" + b"q" * 54})
    return [
        arrives("ustar", [member], arrived),
        arrives("v7", [replace(member, magic=V7)], arrived),
        arrives("gnu", [replace(member, magic=GNU)], arrived),
        arrives("nul-for-a-type", [replace(member, type=b"\0")], arrived),
        arrives("contiguous", [replace(member, type=CONTIGUOUS)], arrived),
        arrives("full-name-and-prefix", [split], {"p" * 100 + "/" + "q" * 54 + "/" + "n" * 100: DATA}),
        arrives("pax-path", [pax({b"path": long.encode()}), member], {long: DATA}),
        arrives("gnu-long-name", [long_name(long.encode()), replace(member, magic=GNU)], {long: DATA}),
        arrives("long-name-without-nul", [Member(b"././@LongLink", long.encode(), LONG_NAME), member], {long: DATA}),
        arrives("long-link-before-a-file", [long_name(b"l" * 200, kind=LONG_LINK), member], arrived),
        arrives("pax-of-other-things", [pax({b"SCHILY.xattr.user.x": bytes(9), b"comment": b"x"}), member], arrived),
        arrives("pax-value-with-newlines", [pax({b"comment": b"a\nb=c\n12 path=x\n"}), member], arrived),
        arrives("pax-global", [pax({b"comment": b"x"}, kind=PAX_GLOBAL), member], arrived),
        arrives("pax-path-twice", [pax(pax_record(b"path", b"no") + pax_record(b"path", b"entry")), member], arrived),
        arrives("pax-size", [pax({b"size": b"%d" % len(DATA)}), replace(member, size=0)], arrived),
        arrives("pax-empty-path", [pax({b"path": b""}), member], arrived, Expected(BEFORE | AFTER, {"": KINDS})),
        arrives("size-in-base-256", [with_size(base_256(len(DATA), 12))], arrived),
        arrives("size-in-spaces", [with_size(b"%11o " % len(DATA))], arrived),
        arrives("size-without-end", [with_size(b"%012o" % len(DATA))], arrived),
        arrives(
            "ids-in-base-256", [replace(member, fields={"uid": base_256(1 << 40, 8), "gid": b"\xff" * 8})], arrived
        ),
        arrives("time-before-1970", [replace(member, fields={"mtime": base_256(-5, 12)})], arrived),
        arrives("time-of-all-ones", [replace(member, fields={"mtime": b"\xff" * 12})], arrived),
        arrives("time-beyond-64-bits", [replace(member, fields={"mtime": base_256(1 << 90, 12)})], arrived, *broken()),
        arrives("pax-time-of-nonsense", [pax({b"mtime": b"1e99999"}), member], arrived, *broken()),
        arrives("mode-of-nonsense", [replace(member, fields={"mode": b"rwxrwxrw"})], arrived, *broken()),
        arrives("empty-file", [Member(b"entry")], {"entry": b""}),
    ]


def broken() -> tuple[Expected, ...]:
    """Permitted where a field that nobody needs is nonsense."""
    return (Expected(BEFORE, refused=KINDS), Expected(BEFORE | AFTER, {"entry": KINDS}))


def good_ends() -> list[Case]:
    """Archives that end in an odd way, or go on after their end."""
    members = plain(BEFORE)
    hidden = build([Member(b"hidden", b"hidden")])
    once = Expected(BEFORE)
    cut_off = Expected(BEFORE, refused=DAMAGED)
    goes_on = Expected(BEFORE, said=["has data after its end"])
    return [
        unpacked("two-blocks", build(members), BEFORE, file=FILE),
        unpacked("many-blocks", build(members, end=bytes(40 * BLOCK)), BEFORE, file=FILE),
        either("garbage-behind-the-end", build(members) + b"garbage" * 99, goes_on, file=FILE),
        either("one-block", build(members, end=bytes(BLOCK)), once, cut_off, file=FILE),
        # So ends every archive that was cut between two members.
        either("no-block", build(members, end=b""), replace(cut_off, said=["mark its end are missing"]), file=FILE),
        either("half-a-block", build(members, end=bytes(100)), cut_off, once, file=FILE),
        # What lies behind the end is not part of the archive, whatever it looks like.
        either("archive-behind-the-end", build(members) + hidden, goes_on, file=FILE),
        either("one-block-between", build(members, end=bytes(BLOCK)) + hidden, once, cut_off, file=FILE),
        either("only-the-end", END, Expected(), Expected(refused=DAMAGED), file=FILE),
    ]


def with_size(raw: bytes, name: bytes = b"entry") -> Member:
    """A member whose size is written so."""
    return Member(name, DATA, fields={"size": raw})


def not_archives() -> list[Case]:
    """Files that are no tar at all."""
    member = Member(b"entry", DATA)
    return [
        refused("checksum-of-the-first", build([replace(member, fields={"checksum": b"000000\0 "})]), file=FILE),
        refused("nonsense", b"\xa5" * 5000, file=FILE),
        refused("magic-alone", bytes(257) + USTAR_MAGIC + bytes(2000), file=FILE),
        refused("half-a-header", member.header()[:256], file=FILE),
    ]


USTAR_MAGIC = b"ustar\x0000"


def broken_headers() -> list[Case]:
    """Headers that contradict themselves or the file: nothing behind them can be found."""
    bad = Member(b"bad", DATA)
    return [
        breaks("checksum", [replace(bad, fields={"checksum": b"000001\0 "})]),
        breaks("checksum-of-nonsense", [replace(bad, fields={"checksum": b"checksum"})]),
        breaks("checksum-empty", [replace(bad, fields={"checksum": bytes(8)})]),
        breaks("block-of-nonsense", [Member(b"", fields={"checksum": b"x"}), bad]),
        breaks("size-beyond-the-file", [replace(bad, size=1 << 30)]),
        breaks("size-of-all-sevens", [with_size(b"7" * 11 + b"\0", b"bad")]),
        breaks("size-of-8-gib-in-base-256", [with_size(base_256(1 << 33, 12), b"bad")]),
        breaks("size-of-2-to-63", [with_size(base_256(1 << 63, 12), b"bad")]),
        breaks("size-of-2-to-63-less-1", [with_size(base_256((1 << 63) - 1, 12), b"bad")]),
        breaks("size-of-2-to-64-less-1", [with_size(base_256(TOP, 12), b"bad")]),
        breaks("size-that-wraps-when-filled-up", [with_size(base_256(TOP - 510, 12), b"bad")]),
        breaks("size-of-2-to-90", [with_size(base_256(1 << 90, 12), b"bad")]),
        breaks("size-negative", [with_size(base_256(-1, 12), b"bad")]),
        breaks("size-negative-by-a-block", [with_size(base_256(-1024, 12), b"bad")]),
        breaks("size-of-nonsense", [with_size(b"zzzzzzzzzzzz", b"bad")]),
        breaks("size-of-nines", [with_size(b"99999999999\0", b"bad")]),
        breaks("size-with-a-sign", [with_size(b"-0000000001\0", b"bad")]),
        not_filled_up(),
    ]


def not_filled_up() -> Case:
    """Contents that are all there, and not filled up to a block: the next header is not where it should be."""
    archive = around([Member(b"bad", b"x" * 100, padded=False)])
    kept = Expected(BEFORE | {"bad": b"x" * 100}, refused=KINDS)
    return either("data-not-filled-up", archive, kept, Expected(BEFORE, {"bad": KINDS}), file=FILE)


def pax_headers() -> list[Case]:
    """S9: extended headers that are malformed are an error, not passed over."""
    bad = Member(b"bad", DATA)
    path = pax_record(b"path", b"bad")
    malformed = {
        "length-0": b"0 path=bad\n",
        "length-1": b"1 path=bad\n",
        "length-too-small": pax_record(b"path", b"bad", length=b"8"),
        "length-too-large": pax_record(b"path", b"bad", length=b"99"),
        "length-of-20-digits": pax_record(b"path", b"bad", length=b"99999999999999999999"),
        "length-negative": pax_record(b"path", b"bad", length=b"-13"),
        "length-of-nonsense": pax_record(b"path", b"bad", length=b"1x"),
        "length-missing": b"path=bad\n",
        "no-equals": b"12 path bad\n",
        "no-newline": b"12 path=bad ",
        "no-key": b"7 =bad\n",
        "nul-in-the-key": pax_record(b"pa\0th", b"bad") + b"junk",
        "second-record-cut": path + b"20 comment=",
        "size-of-nonsense": pax_record(b"size", b"many"),
        "size-negative": pax_record(b"size", b"-1"),
        "size-of-2-to-63": pax_record(b"size", b"%d" % (1 << 63)),
        "size-of-2-to-64": pax_record(b"size", b"%d" % (1 << 64)),
        "size-of-30-digits": pax_record(b"size", b"9" * 30),
        "size-beyond-the-file": pax_record(b"size", b"%d" % (1 << 40)),
        "size-with-a-fraction": pax_record(b"size", b"760.5"),
        "size-in-hexadecimal": pax_record(b"size", b"0x2F8"),
    }
    alone = Expected(BEFORE | AFTER, {"bad": KINDS})
    cases = []
    for name, records in malformed.items():
        case = breaks(name, [pax(records), bad])
        # With no key, or an odd one, the record says nothing about the next member: to pass over it does no harm.
        ignored = (Expected(BEFORE | {"bad": DATA} | AFTER),) if name in ("no-key", "nul-in-the-key") else ()
        cases.append(replace(case, ends=(*case.ends, alone, *ignored)))
    return cases


def lengths_in_doubt() -> list[Case]:
    """Two headers that say two lengths (CVE-2025-62518): what is data for one reader is a header for another."""
    inner = build([Member(b"smuggled", b"smuggled")], end=b"")
    outer = [pax({b"path": b"outer.tar", b"size": b"%d" % len(inner)}), Member(b"outer.tar", inner, size=0)]
    link = Member(b"bad", inner, SYMBOLIC_LINK, link=b"target", size=len(inner))
    smuggled = {"smuggled": b"smuggled"}
    as_data = Expected(BEFORE | AFTER, skipped=1)
    as_header = Expected(BEFORE | smuggled | AFTER, skipped=1)
    refusals = (
        Expected(BEFORE, refused=KINDS),
        Expected(BEFORE, {"bad": KINDS}),
        Expected(BEFORE | AFTER, {"bad": KINDS}),
    )
    # GNU tar and Python: the length is that of what it leads to, which is nothing here.
    no_copy = replace(as_header, failed={"bad": UNSUPPORTED}, skipped=0)
    whole = {"bad": inner}
    zero = [pax({b"size": b"0"}), Member(b"bad", inner)]
    return [
        arrives("pax-size-over-0", outer, {"outer.tar": inner}),
        # pax says 0, so what follows is a header: the standard's reading, unless such a contradiction is refused.
        arrives("pax-size-of-0", zero, {"bad": b""} | smuggled, *refusals),
        either("link-with-data", around([link]), as_data, as_header, *refusals, file=FILE),
        either("hard-link-with-data", around([replace(link, type=HARD_LINK)]), no_copy, *refusals, file=FILE),
        either(
            "directory-with-data", around([replace(link, type=DIRECTORY)]), as_data, as_header, *refusals, file=FILE
        ),
        arrives("size-over-pax-for-the-header-itself", [pax({b"path": b"bad"}), Member(b"x", inner)], whole),
        arrives(
            "pax-size-before-a-long-name",
            [pax({b"size": b"%d" % len(inner)}), long_name(b"bad"), Member(b"x", inner, magic=GNU)],
            whole,
            *refusals,
        ),
        arrives(
            "global-size", [pax({b"size": b"5"}, kind=PAX_GLOBAL), *plain({"x": b"12345"})], {"x": b"12345"}, *refusals
        ),
    ]


def headers_of_headers() -> list[Case]:
    """Headers for a next member that claim much, come twice, or have none after them."""
    bad = Member(b"bad", DATA)
    written = Expected(BEFORE | {"bad": DATA} | AFTER)
    ended = Expected(BEFORE, refused=KINDS)
    alone = Expected(BEFORE | AFTER, {"bad": KINDS})
    cases = [
        breaks("pax-of-1-gib", [pax(b"", size=1 << 30), bad]),
        breaks("pax-of-8-eib", [replace(pax(b""), fields={"size": base_256(1 << 63, 12)}), bad]),
        breaks("long-name-of-1-gib", [long_name(b"bad", size=1 << 30), bad]),
        breaks("long-name-of-8-eib", [replace(long_name(b""), fields={"size": base_256(1 << 63, 12)}), bad]),
        breaks("long-link-of-1-gib", [long_name(b"bad", kind=LONG_LINK, size=1 << 30), bad]),
    ]
    # Real, and far more than any name or attribute needs; a reader may have a limit of its own.
    cases.append(
        either(
            "pax-of-40-mib", lambda: around([pax({b"comment": bytes(40 << 20)}), bad]), ended, alone, written, file=FILE
        )
    )
    cases.append(
        either(
            "pax-twice", around([pax({b"path": b"x"}), pax({b"path": b"bad"}), bad]), ended, alone, written, file=FILE
        )
    )
    cases.append(
        either("long-name-twice", around([long_name(b"x"), long_name(b"bad"), bad]), ended, alone, written, file=FILE)
    )
    cases.append(
        either(
            "long-name-empty",
            around([long_name(b""), bad]),
            ended,
            written,
            alone,
            Expected(BEFORE | AFTER, {"": KINDS}),
            file=FILE,
        )
    )
    for kind in (PAX, LONG_NAME, LONG_LINK):
        dangling = pax({b"path": b"x"}) if kind == PAX else long_name(b"x", kind=kind)
        archive = build([*plain(BEFORE), dangling])
        cases.append(either(f"nothing-behind-{kind.decode()}", archive, ended, Expected(BEFORE), file=FILE))
    cases.append(
        either(
            "5000-headers-for-one-member",
            lambda: around([pax({b"comment": b"x"})] * 5000 + [bad]),
            ended,
            alone,
            written,
            file=FILE,
        )
    )
    return cases


def sparse_members() -> list[Case]:
    """Sparse files in all of their forms, some of which claim terabytes: refused clearly, and the others arrive."""
    old = Member(b"bad", DATA, SPARSE, magic=GNU, fields={"rest": bytes(12)})
    claims = octal(0o77777777777, 12)
    lying = replace(old, fields={"prefix": bytes(41) + claims * 2 + bytes(73) + claims})
    extended = replace(old, fields={"prefix": bytes(41) + claims * 8 + b"\1" + claims})
    forms = {
        "old": [old],
        "old-that-claims-8-gib": [lying],
        "pax-0.0": [pax({b"GNU.sparse.size": b"%d" % TOP, b"GNU.sparse.numblocks": b"1"}), Member(b"bad", DATA)],
        "pax-0.1": [pax({b"GNU.sparse.map": b"0,1,2,3", b"GNU.sparse.size": b"999"}), Member(b"bad", DATA)],
        "pax-1.0": [
            pax({b"GNU.sparse.major": b"1", b"GNU.sparse.minor": b"0", b"GNU.sparse.name": b"bad"}),
            Member(b"GNUSparseFile.0/bad", b"1\n0\n10\n" + DATA),
        ],
        "pax-1.0-up": [
            pax({b"GNU.sparse.major": b"1", b"GNU.sparse.minor": b"0", b"GNU.sparse.name": b"../bad"}),
            Member(b"bad", b"1\n0\n10\n" + DATA),
        ],
    }
    cases = []
    for name, members in forms.items():
        alone = [
            Expected(BEFORE | AFTER, {shown: UNSUPPORTED | {"unsafe-name"}})
            for shown in ("bad", "../bad", "GNUSparseFile.0/bad")
        ]
        cases.append(either(name, around(members), *alone, file=FILE))
    cases.append(breaks("old-with-more-headers", [extended]))
    cases[-1] = replace(cases[-1], ends=(*cases[-1].ends, Expected(BEFORE | AFTER, {"bad": UNSUPPORTED})))
    return cases


def other_types() -> list[Case]:
    """Types of members that are neither files nor links: vendors' own, labels, parts of volumes."""
    cases = []
    ended = Expected(BEFORE, refused=KINDS)  # X stands for a pax header, and a label has no data
    for kind in b"MVDNXIAZ9~\xff":
        member = Member(b"bad", DATA, bytes([kind]), magic=GNU)
        ends = (
            Expected(BEFORE | AFTER, {"bad": KINDS}),
            Expected(BEFORE | AFTER, skipped=1),
            Expected(BEFORE | AFTER | {"bad": DATA}),
            Expected(BEFORE | AFTER),
            *([ended] if chr(kind) in "XV" else []),
        )
        cases.append(either(f"type-{kind:02x}", around([member]), *ends, file=FILE))
    return cases
