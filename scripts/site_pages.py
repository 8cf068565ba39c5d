"""What the documentation site needs besides docs/: pages from elsewhere in the project, and files that they link to.

mkdocs calls these functions (mkdocs.yml, `hooks`). A link in a page is relative to its place in the project. If the
target is a page of the site, the link leads there, else the site has a copy of the file.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
# Page of the site, and where it is in the project. All others are docs/PAGE.
ELSEWHERE = {
    "architecture.md": "ARCHITECTURE.md",
    "changelog-template.md": "changelog.d/TEMPLATE.md",
    "contributing.md": "CONTRIBUTING.md",
    "lab.md": "bench/README.md",
    "security.md": "SECURITY.md",
    **{f"results/{name}.md": f"bench/results/{name}.md" for name in ("README", "report", "reading")},
}
# A line with nothing but a link to a program: the site shows the program.
PROGRAM = re.compile(r"^\[\S+\.py\]\((\S+)\)$", re.MULTILINE)
# A link with the name of a file as its text: the site shows the page's title.
NAMED = re.compile(r"\[[\w./-]+\.md\](?=\(([^)\s#]+\.md)[)#])")
LINK = re.compile(r"(?<=\]\()(?!https?:|#)([^)\s#]+)")


def place(page: str) -> str:
    """Returns where a page of the site is in the project."""
    return ELSEWHERE.get(page, f"docs/{page}")


def target(page: str, link: str) -> str:
    """Returns what a link of a page leads to, as a path in the project."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(place(page)), link))


def site_path(path: str) -> str:
    """Returns where the site has a file of the project."""
    pages = {there: page for page, there in ELSEWHERE.items()}
    return pages.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else f"files/{path}")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds the pages that are elsewhere, and the files that any page links to."""
    for page, there in ELSEWHERE.items():
        files.append(File.generated(config, page, content=(ROOT / there).read_text()))
    for page in [file.src_uri for file in files.documentation_pages()]:
        for link in LINK.findall((ROOT / place(page)).read_text()):
            path = target(page, link.partition("#")[0])
            known = files.get_file_from_path(site_path(path)) is not None
            if not known and (ROOT / path).is_file() and not path.endswith(".md"):  # such a page belongs in ELSEWHERE
                files.append(File.generated(config, site_path(path), abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Turns links in the project into links in the site; shows the programs that a page only links to."""
    here = page.file.src_uri

    def there(found: re.Match[str]) -> str:
        path = target(here, found[0].partition("#")[0])
        if files.get_file_from_path(site_path(path)) is None:
            return found[0]  # a dead link, which mkdocs names, or no link at all
        _, mark, anchor = found[0].partition("#")
        return posixpath.relpath(site_path(path), posixpath.dirname(here) or ".") + mark + anchor

    def program(found: re.Match[str]) -> str:
        path = target(here, found[1])
        return f'```python title="{path}"\n{(ROOT / path).read_text()}```'

    def title(found: re.Match[str]) -> str:
        path = ROOT / target(here, found[1])
        heading = re.search("^# (.*)", path.read_text(), re.MULTILINE) if path.is_file() else None
        return f"[{heading[1]}]" if heading else found[0]

    return LINK.sub(there, NAMED.sub(title, PROGRAM.sub(program, markdown)))
