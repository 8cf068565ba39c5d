"""Refuses a built site with a dead link, or with anything that is loaded from another host.

Usage: check_site.py DIRECTORY
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Elements that a browser loads by itself, and the attribute with the address. A link is only followed by a reader.
LOADED = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("link", "href"), ("object", "data")}
SOURCES = re.compile(r"url\(\s*['\"]?(?:https?:)?//|@import\s+['\"]?(?:https?:)?//")


class Page(HTMLParser):
    """What a page links to, what it loads, and the places in it that a link can lead to."""

    def __init__(self, text: str) -> None:
        """Parses a page."""
        super().__init__()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes the links and places of an element."""
        for name, value in attrs:
            if name == "id" and value:
                self.places.add(value)
            if name in ("href", "src") and value:
                (self.loads if (tag, name) in LOADED else self.links).add(value)


def file_of(page: Path, path: str) -> Path:
    """Returns the file that a relative link of a page means."""
    found = page.parent / unquote(path) if path else page
    return found / "index.html" if found.is_dir() else found


def findings(site: Path) -> list[str]:
    """Returns what is wrong, each with the page."""
    pages = {path.resolve(): Page(path.read_text()) for path in site.rglob("*.html")}
    wrong = [] if pages else [f"no page in {site}"]
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        # Of 404.html a server may show the text at any address, so its links begin at the root.
        base = site / "index.html" if name.name == "404.html" else path
        for link in sorted(page.links | page.loads):
            parts = urlsplit(link)
            if parts.scheme in ("http", "https") or parts.netloc:
                wrong += [f"{name}: loads {link}"] if link in page.loads else []
            elif not parts.scheme:
                there = file_of(base, parts.path.lstrip("/") if base is not path else parts.path).resolve()
                if not there.is_file():
                    wrong.append(f"{name}: {link} leads nowhere")
                elif parts.fragment and there in pages and unquote(parts.fragment) not in pages[there].places:
                    wrong.append(f"{name}: {link}: no such place")
    for path in site.rglob("*.css"):
        wrong += [f"{path.relative_to(site)}: loads {found[0]}…" for found in SOURCES.finditer(path.read_text())]
    return wrong


def main(site: Path) -> int:
    """Prints what is wrong; returns the exit code."""
    wrong = findings(site)
    print("\n".join(wrong) if wrong else f"{site}: {len(list(site.rglob('*.html')))} pages, no dead link")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
