"""Results as files: several as one, and reading them again. Not here: what stands in one (`results.py`).

The form is that of results.schema.json, which is also what a file is checked with: a report is made of whatever a file
says, so nothing else may be in it. A file of another version is refused, not guessed at.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from shoal import ConfigError
from shoal_bench.arena import Scale
from shoal_bench.results import SCHEMA, Results, Row, Trial

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

LARGEST = 256 << 20  # bytes of a file; a result has about a hundred thousand
HUGE = 1e18  # above any number of bytes, objects or seconds that there is: such would overflow further on
SCHEMA_FILE = Path(__file__).parent / "results.schema.json"
TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "null": lambda value: value is None,
}


@dataclass
class Collection:
    """The contests of several jobs.

    Attributes:
        results: What came of them.
        failed: Jobs that ended with an error, and the error.
    """

    results: list[Results]
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def clean(self) -> bool:
        """Whether no job, and no row that should not, has failed."""
        return not self.failed and not any(one.failed for one in self.results)

    def to_json(self) -> str:
        """Returns all of them as JSON; `load` reads it."""
        parts = {"schema": SCHEMA, "results": [one.parts() for one in self.results], "failed": self.failed}
        return json.dumps(parts, indent=1)


def load(path: str | os.PathLike[str]) -> Collection:
    """Reads what `--json` has written, or `shoal bench all`.

    Args:
        path: The file.

    Returns:
        The contests in it; one, or those of all jobs.

    Raises:
        ConfigError: It cannot be read, is none, or is of a version that this shoal does not know.
    """
    name = str(path)
    try:
        with Path(path).open("rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise ConfigError(f"{name!r} is no result of shoal bench: it has more than {LARGEST:,} bytes")
        found = json.loads(data, parse_constant=_refuse)
    except OSError as error:
        raise ConfigError(f"{name!r} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{name!r} is no result of shoal bench: not JSON: {error}") from error
    if not isinstance(found, dict) or "schema" not in found:
        raise ConfigError(
            f"{name!r} is no result of shoal bench: it has no schema", hint="give what --json has written"
        )
    if found["schema"] != SCHEMA or isinstance(found["schema"], bool):
        newer = isinstance(found["schema"], int) and found["schema"] > SCHEMA
        raise ConfigError(
            f"{name!r} has schema {found['schema']!r}, this shoal reads {SCHEMA}",
            hint="read it with the shoal that wrote it, " + ("or a newer one" if newer else "or measure again"),
        )
    fault = mismatch(found)
    if fault:
        raise ConfigError(f"{name!r} is no result of shoal bench: {fault}")
    several = "results" in found
    contests = [_results(one) for one in (found["results"] if several else [found])]
    return Collection(contests, dict(found["failed"]) if several else {})


def mismatch(found: dict[str, Any]) -> str | None:
    """Returns where a document does not have the form of the schema; None: it has."""
    schema = json.loads(SCHEMA_FILE.read_text())
    several = "results" in found
    fault = _walk(found, schema["$defs"]["collection" if several else "results"], schema["$defs"], "")
    if fault is None:
        for one in found["results"] if several else [found]:
            keys = [row["key"] for row in one["rows"]]
            if len(set(keys)) < len(keys):
                return "two rows have one key"
            if one["base"] not in keys:
                return f"there is no row {one['base']!r}, the base"
    return fault


def _walk(value: Any, rule: dict[str, Any], names: dict[str, Any], where: str) -> str | None:
    """Returns what is wrong below a place; knows the keywords that the schema uses, and no others."""
    if "$ref" in rule:
        rule = names[rule["$ref"].rpartition("/")[2]]
    kinds = rule.get("type", [])
    kinds = kinds if isinstance(kinds, list) else [kinds]
    here = where or "the whole"
    if kinds and not any(TYPES[kind](value) for kind in kinds):
        return f"{here} is not {' or '.join(kinds)}"
    if "const" in rule and (value != rule["const"] or isinstance(value, bool)):
        return f"{here} is not {rule['const']!r}"
    if TYPES["number"](value):
        low = value < rule["minimum"] if "minimum" in rule else value <= rule.get("exclusiveMinimum", -float("inf"))
        return f"{here} is out of range: {value!r}" if low or abs(value) > HUGE else None
    if isinstance(value, list):
        if len(value) < rule.get("minItems", 0):
            return f"{here} is empty"
        each = [(f"{where}[{at}]", one, rule.get("items", {})) for at, one in enumerate(value)]
    elif isinstance(value, dict):
        missing = [name for name in rule.get("required", []) if name not in value]
        if missing:
            return f"{here} has no {missing[0]!r}"
        known, other = rule.get("properties", {}), rule.get("additionalProperties", {})
        each = [(f"{where}.{name}".lstrip("."), one, known.get(name, other)) for name, one in value.items()]
    else:
        each = []
    return next((fault for place, one, inner in each if (fault := _walk(one, inner, names, place))), None)


def _results(found: dict[str, Any]) -> Results:
    """Makes results of a document that has the form of the schema."""
    rows = []
    for row in found["rows"]:
        trials = [Trial(**_known(Trial, trial)) for trial in row["trials"]]
        rows.append(Row(**_known(Row, row) | {"trials": trials}))
    scale = Scale(**_known(Scale, found["scale"]))
    return Results(**_known(Results, found) | {"rows": rows, "scale": scale})


def _known(kind: Any, found: dict[str, Any]) -> dict[str, Any]:
    """Returns those keys that a class has: what a later shoal added is passed over."""
    return {one.name: found[one.name] for one in fields(kind) if one.name in found}


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number")
