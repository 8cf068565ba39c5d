"""The wheels as users get them: in an empty environment, without a compiler or development packages."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800), pytest.mark.xdist_group("wheel")]

ROOT = Path(__file__).parent.parent
INSTALL = ("install", "--quiet", "--only-binary", ":all:")  # nothing is compiled
# What `shoal` needs besides itself: click, rich, and what rich needs.
NEEDED = {"click", "markdown-it-py", "mdurl", "pygments", "rich", "shoal"}


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with the wheels: SHOAL_DIST, as in a release, else made from what is compiled already."""
    given = os.environ.get("SHOAL_DIST")
    if given is not None:
        return Path(given).resolve()
    made = tmp_path_factory.mktemp("dist")
    subprocess.run([ROOT / "scripts/wheel.sh", made, "local"], check=True, stdin=subprocess.DEVNULL)
    return made


class Environment:
    """An environment with nothing in it, not even pip; its programs and `sync`, which the lab runs, are in PATH."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "work"
        self.directory.mkdir(parents=True)
        self.bin = directory / "empty/bin"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory / "empty"], check=True)
        (self.bin / "sync").symlink_to(str(shutil.which("sync")))
        self.variables = {"PATH": str(self.bin), "HOME": str(self.directory), "LANG": "C.UTF-8"}

    def install(self, *what: str | Path) -> None:
        """Installs wheels and what they need, with the pip of the tests, which stays outside."""
        pip = [sys.executable, "-m", "pip", "--python", str(self.bin / "python"), *INSTALL]
        subprocess.run([*pip, *map(str, what)], check=True, stdin=subprocess.DEVNULL)

    def run(self, program: str, *arguments: str | Path) -> str:
        """Runs a program to its end, which must be a good one; returns its output and its messages."""
        done = subprocess.run(
            [self.bin / program, *arguments],
            cwd=self.directory,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    @contextlib.contextmanager
    def service(self, *options: str) -> Iterator[str]:
        """Runs `shoal serve`, as a user does in the background; returns its address."""
        process = subprocess.Popen(
            [self.bin / "shoal", "serve", *options, "--port", "0"],
            cwd=self.directory,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            found = re.search(r"http://\S+", process.stdout.readline())
            assert found is not None
            yield found[0]
        finally:
            process.terminate()
            process.communicate(timeout=60)

    def distributions(self) -> set[str]:
        """The names of everything that is installed."""
        names = "import importlib.metadata as m; print(*(one.name for one in m.distributions()))"
        return {name.lower().replace("_", "-") for name in self.run("python", "-c", names).split()}


@pytest.fixture(scope="session")
def empty(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the wheel of shoal."""
    environment = Environment(tmp_path_factory.mktemp("environment"))
    environment.install(*dist.glob("shoal-[0-9]*.whl"))
    return environment


def test_the_wheel_needs_two_packages_and_no_compiler(empty: Environment) -> None:
    assert empty.distributions() == NEEDED
    for program in ("cc", "gcc", "clang", "cargo", "rustc", "maturin", "zig"):
        assert shutil.which(program, path=empty.variables["PATH"]) is None


def test_the_wheel_says_what_it_is(empty: Environment, dist: Path) -> None:
    (wheel,) = dist.glob("shoal-[0-9]*.whl")
    version = wheel.name.split("-")[1]

    assert empty.run("shoal", "--version") == f"shoal {version}\n"
    assert "shoal copy" in empty.run("shoal", "--help")
    said = empty.run("python", "-c", "import shoal; print(shoal.__version__, shoal.BUILD_PROFILE, shoal.__file__)")
    assert said.split()[:2] == [version, "release" if "SHOAL_DIST" in os.environ else "local"]
    assert said.split()[2].startswith(str(empty.bin.parent))


def test_the_wheel_has_the_licences_of_its_crates(dist: Path) -> None:
    (wheel,) = dist.glob("shoal-[0-9]*.whl")
    with zipfile.ZipFile(wheel) as opened:
        (name,) = [name for name in opened.namelist() if name.endswith("/licenses/LICENSE-THIRD-PARTY")]
        text = opened.read(name).decode()
    for crate in ("arrow-array", "libsqlite3-sys", "parquet", "pyo3", "ring", "rustls", "tokio", "zstd-sys"):
        assert re.search(rf"^{crate} [\d.+]", text, re.MULTILINE), crate


def test_the_wheel_copies_from_a_service_and_every_byte_arrives(empty: Environment) -> None:
    with empty.service("--synthetic", "20000:100") as url:
        said = empty.run("shoal", "copy", url, "out/")
        again = empty.run("shoal", "copy", url, "out/")

    assert said.startswith("wrote 20,000 objects")
    assert "20,000" in again
    files = {path.name: path.read_bytes() for path in (empty.directory / "out").iterdir() if path.is_file()}
    assert len(files) == 20_000
    for name, data in files.items():
        assert data == (f"{name}\n" * 100).encode()[:100]


def test_the_wheel_unpacks_packs_and_verifies(empty: Environment) -> None:
    contents = {f"{number:03}.txt": f"text {number}" * number for number in range(200)}
    with zipfile.ZipFile(empty.directory / "one.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in contents.items():
            archive.writestr(name, text)

    empty.run("shoal", "unzip", "one.zip", "-d", "unpacked/")
    empty.run("shoal", "copy", "zip:one.zip", "parquet:packed/")
    empty.run("shoal", "verify", "parquet:packed/")

    unpacked = empty.directory / "unpacked"
    assert {path.name: path.read_text() for path in unpacked.iterdir() if path.is_file()} == contents


def test_the_wheel_saves_and_reads_from_python(empty: Environment) -> None:
    script = """
import shoal

assert shoal.save(((f"{n}.json", {"n": n}) for n in range(1000)), "saved/").written == 1000
assert sorted(obj.name for obj in shoal.read("saved/")) == sorted(f"{n}.json" for n in range(1000))
assert sum(len(batch) for batch in shoal.read("saved/").batches(100)) == 1000
"""
    empty.run("python", "-c", script)


def test_the_lab_without_its_extra_measures_and_says_what_is_missing(
    dist: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lab = Environment(tmp_path_factory.mktemp("lab"))
    lab.install(*dist.glob("*.whl"))

    assert "numpy" not in lab.distributions()
    assert "aiofiles" in lab.run("shoal", "bench", "save", "--list")
    said = lab.run(
        "shoal", "bench", "save", "--only", "shoal-generate,limit", "--count", "50", "--trials", "1", "--dir", "there"
    )
    assert "every byte compared" in " ".join(said.split())


def test_the_extra_of_the_lab_brings_what_its_rows_need(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    lab = Environment(tmp_path_factory.mktemp("all"))
    (wheel,) = dist.glob("shoal_bench-[0-9]*.whl")
    lab.install(*dist.glob("shoal-[0-9]*.whl"), f"{wheel}[all]")

    assert {"aiohttp", "numpy", "obstore", "polars", "pyarrow"} <= lab.distributions()
    listed = lab.run("shoal", "bench", "copy", "--list")
    assert "pip install" not in listed
    said = lab.run(
        *("shoal", "bench", "copy", "--only", "shoal,obstore,event-loop", "--count", "500", "--trials", "1"),
        *("--dir", "there", "--plot", "rates.svg"),
    )
    assert "every byte compared" in " ".join(said.split())
    assert (lab.directory / "rates.svg").stat().st_size > 1000


def test_a_new_user_gets_from_the_wheel_to_polars_with_the_first_page(
    dist: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("user")
    (place / "dist").symlink_to(dist)
    (place / "tools").mkdir()
    for tool in ("bash", "rm", "sleep", "timeout"):
        (place / "tools" / tool).symlink_to(str(shutil.which(tool)))
    (place / "tools/python3").symlink_to(Path(sys.base_prefix) / "bin/python3")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    page = (ROOT / "docs/start.md").read_text().replace("8080", str(port))
    lines = ["set -euo pipefail"]
    for kind, block in re.findall(r"^```(console|python)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        if kind == "python":
            lines += ["python - <<'END'", block + "END"]
            continue
        for line in re.findall(r"^\$ (.*)", block, re.MULTILINE):
            if line.startswith("timeout"):
                lines.append(f"{line} || test $? = 137; echo killed")
            elif line.endswith("&"):
                lines += [
                    f"{line.replace(' --quiet', f' --quiet --port {port}')}",
                    f"until (: >/dev/tcp/127.0.0.1/{port})",
                ]
                lines[-1] += " 2>/dev/null; do sleep 0.1; done"
            else:
                lines.append(line)
    kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))}
    done = subprocess.run(
        [place / "tools/bash", "-c", "\n".join(lines)],
        cwd=place,
        env=kept | {"PATH": str(place / "tools"), "HOME": str(place), "LANG": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
    )

    assert done.returncode == 0, done.stdout
    assert "killed\n" in done.stdout
    assert done.stdout.count("verified 100,000 files") == 2
    assert "Report(ok=True, written=1000" in done.stdout
    assert sorted(path.name for path in place.iterdir()) == ["dist", "shoal-env", "tools"]


def check(directory: Path, largest: int) -> tuple[int, str]:
    command = [sys.executable, str(ROOT / "scripts/check_wheel.py"), str(directory), str(largest)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
    return done.returncode, done.stdout


def test_the_wheels_pass_the_check_and_others_are_refused(dist: Path, tmp_path: Path) -> None:
    code, said = check(dist, 10_000_000 if "SHOAL_DIST" in os.environ else 20_000_000)
    assert code == 0, said

    shutil.copytree(dist, tmp_path / "dist")
    (wheel,) = (tmp_path / "dist").glob("shoal-[0-9]*.whl")
    with zipfile.ZipFile(wheel, "a") as changed:
        changed.writestr("tests/conftest.py", "")
    wheel.rename(wheel.with_name(re.sub("manylinux_[0-9]+_[0-9]+_", "linux_", wheel.name)))
    for other in (tmp_path / "dist").glob("shoal_bench-*.tar.gz"):
        other.unlink()

    code, said = check(tmp_path / "dist", 1_000_000)
    assert code == 1
    assert "bytes, at most 1,000,000" in said
    assert "tests/conftest.py does not belong there" in said
    assert "the tag is cp311-abi3-linux_" in said
    assert "0 files shoal_bench-" in said


def test_a_library_with_symbols_is_seen(dist: Path, tmp_path: Path) -> None:
    import check_wheel

    (wheel,) = dist.glob("shoal-[0-9]*.whl")
    with zipfile.ZipFile(wheel) as opened:
        assert not check_wheel.has_symbols(opened.read("shoal/_shoal.abi3.so"))
    # What `make build` makes has symbols for stack traces.
    assert check_wheel.has_symbols((ROOT / "python/shoal/_shoal.abi3.so").read_bytes())
