"""The strategies, limits and own rows of the jobs save and read, each run as the script it is."""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from conftest import PATIENCE
from shoal_bench.contestants import BARE_LOOPS

BENCH = Path(__file__).parent.parent / "python" / "shoal_bench"
SAVE, READ = BENCH / "strategies" / "save", BENCH / "strategies" / "read"
SAVERS = [*sorted(path for path in SAVE.glob("*.py") if path.stem != "__init__"), BENCH / "limits" / "save.py"]
READERS = sorted(path for path in READ.glob("*.py") if path.stem != "__init__")
ONE_WORKER = {"sequential"}


def key(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


def constants(path: Path) -> dict[str, object]:
    """Returns a module's constants that are written out, without importing what it needs."""
    found: dict[str, object] = {}
    for node in ast.parse(path.read_text()).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
            try:
                found[target.id] = ast.literal_eval(node.value)
            except ValueError:
                found[target.id] = ast.unparse(node.value)
    return found


def start(script: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    required = constants(script).get("REQUIRES", ())
    assert isinstance(required, tuple)
    missing = [name for name in required if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    command = [sys.executable, script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)


def run(script: Path, *arguments: str | Path) -> dict[str, object]:
    done = start(script, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    assert isinstance(found["seconds"], float)
    assert found["seconds"] > 0
    return found


def table(number: int) -> str:
    """The content of a file of the study of saving."""
    return "\n".join(",".join(str(number + line + column) for column in range(10)) for line in range(5000))


@pytest.mark.parametrize("script", SAVERS, ids=key)
def test_every_strategy_saves_every_byte(script: Path, tmp_path: Path) -> None:
    printed = run(script, tmp_path, "12")
    expected = {f"data-{number:04d}.csv": table(number) for number in range(12)}
    assert {path.name: path.read_bytes().decode() for path in tmp_path.iterdir()} == expected
    assert set(printed) == {"objects", "bytes", "seconds", "workers"}
    assert (printed["objects"], printed["bytes"]) == (12, sum(map(len, expected.values())))
    assert isinstance(printed["workers"], int)
    assert printed["workers"] >= 1


@pytest.mark.parametrize("count", [1, 7])
@pytest.mark.parametrize("script", [path for path in SAVERS if path.stem not in ONE_WORKER], ids=key)
def test_workers_are_as_asked_and_may_be_more_than_files(script: Path, count: int, tmp_path: Path) -> None:
    asked = [] if "unbounded" in script.stem else ["--workers", "3"]
    printed = run(script, tmp_path, str(count), *asked)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"data-{number:04d}.csv" for number in range(count)]
    assert printed["workers"] == (3 if asked else count)


@pytest.mark.parametrize("script", SAVERS, ids=key)
def test_a_save_that_fails_is_an_error(script: Path, tmp_path: Path) -> None:
    (tmp_path / "data-0003.csv").mkdir()
    done = start(script, tmp_path, "6")
    assert done.returncode == 1
    assert "Error" in done.stderr
    assert "objects" not in done.stdout


def test_every_script_makes_the_same_content() -> None:
    # The function is written in each, as each is to be taken away; that must not become a difference in speed.
    made = {}
    for script in [*SAVERS, BENCH / "ours" / "generate.py"]:
        (function,) = [
            node
            for node in ast.parse(script.read_text()).body
            if isinstance(node, ast.FunctionDef) and node.name == "make"
        ]
        made[key(script)] = ast.unparse(function)
    assert len(set(made.values())) == 1, made


def test_tables_of_numpy_and_arrow_hold_the_same_numbers() -> None:
    numpy, pyarrow = pytest.importorskip("numpy"), pytest.importorskip("pyarrow")
    spec = importlib.util.spec_from_file_location("ours_save", BENCH / "ours" / "save.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for number in (0, 7, 123_456):
        rows = module.array(number)
        assert (rows.dtype, rows.shape) == (numpy.int64, (5000, 10))
        assert "\n".join(",".join(map(str, row)) for row in rows.tolist()) == table(number)
        columns = module.table(number)
        assert isinstance(columns, pyarrow.Table)
        assert (numpy.column_stack([column.to_numpy() for column in columns.columns]) == rows).all()


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few hundred files of many sizes on three levels, and what is no file."""
    base = tmp_path_factory.mktemp("tree")
    for number in range(230):
        folder = base / ("." if number % 3 == 0 else f"{number % 3}" if number % 3 == 1 else "2/deeper")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"file {number}").write_bytes(bytes([number]) * number**2)
    (base / "empty").mkdir()
    (base / "link").symlink_to(base / "2")
    (base / "link to a file").symlink_to(base / "file 9")
    return base


def tree_of(base: Path) -> dict[str, bytes]:
    paths = [path for path in base.rglob("*") if path.is_file() and not path.is_symlink()]
    return {str(path.relative_to(base)): path.read_bytes() for path in paths}


@pytest.mark.parametrize("script", READERS, ids=key)
def test_every_strategy_reads_every_byte(script: Path, tree: Path) -> None:
    files = tree_of(tree)
    assert len(files) == 230
    workers = [] if script.stem in ONE_WORKER else ["--workers", "3"]
    printed = run(script, tree, "--verify", *workers)
    assert (printed["objects"], printed["bytes"]) == (230, sum(map(len, files.values())))
    assert printed["proof"] == sum(zlib.crc32(name.encode() + data) for name, data in files.items())
    assert printed["workers"] == (3 if workers else 1)
    timed = run(script, tree, *workers)
    assert set(timed) == {"objects", "bytes", "seconds", "workers"}, "no proof in a trial that counts"
    assert (timed["objects"], timed["bytes"]) == (printed["objects"], printed["bytes"])


@pytest.mark.parametrize("script", READERS, ids=key)
def test_an_empty_directory_is_nothing_to_read(script: Path, tmp_path: Path) -> None:
    printed = run(script, tmp_path)
    assert (printed["objects"], printed["bytes"]) == (0, 0)


@pytest.mark.parametrize("script", READERS, ids=key)
def test_a_directory_that_is_not_there_is_an_error(script: Path, tmp_path: Path) -> None:
    done = start(script, tmp_path / "missing")
    assert done.returncode == 1
    assert "FileNotFoundError" in done.stderr
    assert "objects" not in done.stdout


def test_the_limit_of_read_reads_every_file_once(tree: Path) -> None:
    files = tree_of(tree)
    for workers in (1, 3):
        command = [BARE_LOOPS, "read", str(tree), "--workers", str(workers)]
        printed = json.loads(subprocess.check_output(command, timeout=PATIENCE))
        assert (printed["objects"], printed["bytes"]) == (230, sum(map(len, files.values())))


@pytest.mark.parametrize("script", [*SAVERS[:-1], *READERS], ids=key)
def test_no_strategy_imports_shoal_and_each_has_its_constants(script: Path) -> None:
    nodes = list(ast.walk(ast.parse(script.read_text())))
    imported = {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    imported |= {node.module or "." for node in nodes if isinstance(node, ast.ImportFrom)}
    assert not {name for name in imported if name.split(".")[0] in {"", "shoal"}}
    found = constants(script)
    assert {"NAME", "PUBLISHED", "REQUIRES", "DEFAULT_WORKERS"} <= set(found)
    assert isinstance(found["PUBLISHED"], dict)


@pytest.mark.parametrize("folder", [SAVE, READ], ids=lambda folder: folder.name)
def test_the_order_names_every_strategy(folder: Path) -> None:
    order = constants(folder / "__init__.py")["ORDER"]
    assert isinstance(order, tuple)
    assert sorted(order) == sorted(path.stem for path in folder.glob("*.py") if path.stem != "__init__")
