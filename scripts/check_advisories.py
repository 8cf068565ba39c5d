"""Looks up known vulnerabilities of what is shipped, where a database can be reached.

cargo-audit looks at Cargo.lock, pip-audit at the package's own Python dependencies. A tool that is not installed and a
database that does not answer are notices, never failures: a build must not depend on them.
"""

import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PATIENCE = 9  # s for each of the two tools: an unreachable database must not hold the checks up

# Advisory, and why it does not touch shoal.
IGNORED: dict[str, str] = {}


def ask(command: list[str]) -> Any:
    """Returns the JSON that a tool printed, or None when it could not give any."""
    try:
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=PATIENCE)
        return json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None


def crates() -> tuple[list[str], str | None]:
    """Returns the advisories against crates, and why it could not look, if so."""
    if not shutil.which("cargo-audit"):
        return [], "cargo-audit is not installed (cargo install cargo-audit)"
    answer = ask(["cargo-audit", "audit", "--json", "--file", str(ROOT / "Cargo.lock")])
    if not isinstance(answer, dict) or "vulnerabilities" not in answer:
        return [], "the database of crate advisories could not be reached"
    found = answer["vulnerabilities"]["list"]
    return [f"{v['advisory']['id']} {v['package']['name']} {v['package']['version']}" for v in found], None


def shipped_packages() -> list[str]:
    """Returns what installing shoal brings with it, as name==version."""
    pinned: dict[str, str] = {}
    pending = ["shoal"]
    while pending:
        for requirement in importlib.metadata.requires(pending.pop()) or []:
            # "name>=1; marker": an extra is not shipped, and what a false marker leaves out is simply not installed.
            name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
            if "extra ==" in requirement or name in pinned:
                continue
            try:
                pinned[name] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                continue
            pending.append(name)
    return [f"{name}=={version}" for name, version in sorted(pinned.items())]


def python_packages() -> tuple[list[str], str | None]:
    """Returns the advisories against Python packages, and why it could not look, if so."""
    tool = shutil.which("pip-audit")
    if not tool:
        return [], "pip-audit is not installed (pip install pip-audit)"
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as requirements:
        requirements.write("\n".join(shipped_packages()))
        requirements.flush()
        flags = ["--format=json", "--progress-spinner=off", "--disable-pip", "--no-deps", "--timeout=5"]
        answer = ask([tool, *flags, "--requirement", requirements.name])
    entries = answer.get("dependencies", []) if isinstance(answer, dict) else []
    if not entries or any("skip_reason" in entry for entry in entries):
        return [], "the database of Python advisories could not be reached"
    return [f"{v['id']} {e['name']} {e['version']}" for e in entries for v in e["vulns"]], None


def main() -> int:
    """Prints advisories and notices; returns the exit code."""
    refused = 0
    for what, look in (("crates", crates), ("Python packages", python_packages)):
        found, notice = look()
        if notice:
            print(f"notice: advisories of {what} were not checked: {notice}")
            continue
        for line in found:
            reason = IGNORED.get(line.split()[0])
            refused += not reason
            print(f"notice: {line}: ignored because {reason}" if reason else f"{line}: update it")
        print(f"advisories of {what}: {len(found)} found")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
