"""The check of Parquet files of objects (`parquet:DIR`), for `shoal verify`. Not here: the check itself (`_shoal`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal import _shoal
from shoal._progress import count_text, size_text, time_text
from shoal.cli import _display, _summary

if TYPE_CHECKING:
    from pathlib import Path

    from shoal.cli._display import Display

PREFIX = "parquet:"
FILES = "objects-*.parquet"


def directory_of(text: str) -> str | None:
    """Returns the directory that `parquet:DIR` names, or None for another text."""
    return text.removeprefix(PREFIX) if text.startswith(PREFIX) else None


def is_dataset(directory: Path) -> bool:
    """Returns whether a directory has files as `parquet:DIR` writes them."""
    return next(directory.glob(FILES), None) is not None


def check(directory: str, display: Display, options: dict[str, Any], *, as_json: bool) -> bool:
    """Checks a dataset, prints what is wrong and the summary, and returns whether nothing is wrong.

    Raises:
        ConfigError: An option is wrong, or the directory has no such files.
    """
    own = _shoal.checked("run", options)
    workers = None if own["workers"] == "auto" else own["workers"]
    found = _shoal.verify_dataset(directory, workers, own["nice"], own["memory"], display.progress)
    for one in found["damaged"]:
        if as_json:
            fields = {"name": one["file"], "reason": one["reason"], "faults": one["faults"]}
            _display.out_json({"type": "file", "state": "damaged", **fields})
        else:
            more = f" (and {one['faults'] - 1:,} more)" if one["faults"] > 1 else ""
            _display.out(f"damaged: {_summary.shown_name(one['file'])}: {one['reason']}{more}")
    for one in found["examples"]:
        if as_json:
            _display.out_json({"type": "duplicate", **one})
        else:
            places = " and ".join(f"{place['file']} row {place['row']:,}" for place in (one["first"], one["second"]))
            _display.out(f"duplicate: {_summary.shown_name(one['name'])}: {places}")
    display.ended(_words(found), {name: value for name, value in found.items() if name != "examples"} | _counts(found))
    return bool(found["ok"])


def _counts(found: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields of the report that differ from those of the check."""
    return {"damaged": len(found["damaged"]), "seconds": round(found["seconds"], 6)}


def _words(found: dict[str, Any]) -> list[str]:
    objects, files, size, seconds = found["objects"], found["files"], found["bytes"], max(found["seconds"], 1e-6)
    lines = [
        f"verified {count_text(objects)} in {count_text(files, 'file')}, {size_text(size)}, "
        f"in {time_text(found['seconds'])}: {objects / seconds:,.0f}/s, {size_text(size / seconds)}/s"
    ]
    damaged, duplicates = len(found["damaged"]), found["duplicates"]
    bad = [f"{count_text(damaged, 'file')} damaged or missing"] if damaged else []
    if duplicates:
        shown = len(found["examples"])
        bad.append(f"{count_text(duplicates, 'duplicate')}" + (f", {shown} shown" if shown < duplicates else ""))
    if bad:
        lines.append(f"of {count_text(files, 'file')}: {', '.join(bad)}")
    without = found["without_checksums"]
    if without:
        lines.append(f"note: {count_text(without, 'file')} without checksums: only structure and sizes were checked")
    return [*lines, *(f"note: {note}" for note in found["notes"])]
