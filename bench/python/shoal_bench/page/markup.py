"""HTML and SVG in which every string is escaped, because nothing else can be built. Not here: any page."""

from __future__ import annotations

import html
import re

# The elements and attributes of a page are named by its code, never by what was measured.
NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9-]*")
VOID = {"meta", "link", "br"}


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def escaped(text: object) -> Markup:
    """Returns text as HTML shows it; what is Markup stays."""
    if isinstance(text, Markup):
        return text
    return Markup(html.escape(visible(str(text))))


def visible(text: str) -> str:
    """Returns text without control characters, which have no place in a page, and in a title only hide something."""
    return "".join(sign if sign.isprintable() or sign in "\n\t" else "\N{REPLACEMENT CHARACTER}" for sign in text)


def tag(name: str, /, *content: object, **attributes: object) -> Markup:
    """Returns an element; of the attributes, `_` stands for `-`, a trailing one for none, and None leaves it out."""
    given = []
    for key, value in attributes.items():
        attribute = key.rstrip("_").replace("_", "-")
        if not NAME.fullmatch(attribute) or attribute.startswith("on"):
            raise ValueError(f"no attribute: {attribute!r}")
        if value is not None:
            given.append(f' {attribute}="{escaped(value)}"')
    if not NAME.fullmatch(name) or name in ("script", "iframe"):
        raise ValueError(f"no element: {name!r}")
    opening = f"<{name}{''.join(given)}>"
    return Markup(opening if name in VOID else f"{opening}{joined(*content)}</{name}>")


def joined(*parts: object) -> Markup:
    """Returns parts one after the other."""
    return Markup("".join(escaped(part) for part in parts))
