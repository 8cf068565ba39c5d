"""What `shoal.generate` promises: a file for each id with what the function returned, or why there is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import shoal as package
from generating import Job, expected, processes_in
from waiting import wait_until

if TYPE_CHECKING:
    from conftest import Command


def test_every_id_has_a_file_with_what_the_function_returned_for_it(job: Job) -> None:
    job.module("make = plain")

    counts, failures = job.run("range(1234)")

    assert counts == [1234, 0, 0, sum(map(len, expected(1234).values())), True]
    assert not failures
    assert job.contents() == expected(1234)


def test_one_worker_is_given_the_ids_in_their_order(job: Job) -> None:
    job.module("def make(number): note('calls', number); return ''")
    job.run("range(1000, 0, -1)", workers=1)
    assert job.lines("calls") == [str(number) for number in range(1000, 0, -1)]


def test_the_function_is_called_in_other_processes_as_many_as_asked(job: Job) -> None:
    job.module("def make(number): time.sleep(0.02); return f'{os.getpid()}'")
    job.run("range(60)", workers=3)
    assert len(set(job.contents().values())) == 3


def test_ids_may_be_texts_and_names_may_have_directories(job: Job) -> None:
    job.module("def make(text): return text.upper()")

    job.run("['a', 'ä/b', '7']", name="{}/data.txt")

    assert (job.out / "a/data.txt").read_text() == "A"
    assert (job.out / "ä/b/data.txt").read_text() == "Ä/B"
    assert (job.out / "7/data.txt").read_text() == "7"


def test_long_ids_and_long_reasons_of_failures_do_not_stop_each_other(job: Job) -> None:
    # A task and its outcomes are each more than a pipe holds: 64 ids of 6 kB one way, 64 reasons of 4 kB the other.
    job.module("def make(text): raise ValueError('why ' * 2000)")

    counts, failures = job.run("[f'{n:06}' + 'x' * 6000 for n in range(1000)]", name="{:.6}.csv", workers=2)

    assert counts == [0, 0, 1000, 0, True]
    assert len({name for name, _, _ in failures}) == len(failures)


def test_no_ids_are_a_complete_job(job: Job) -> None:
    job.module("make = plain")
    assert job.run("[]")[0] == [0, 0, 0, 0, True]


@pytest.mark.parametrize("durability", ["none", "batch", "file"])
def test_every_durability_writes_the_same(job: Job, durability: str) -> None:
    job.module("make = plain")
    job.run("range(30)", durability=durability)
    assert job.contents() == expected(30)


def test_every_kind_of_data_is_saved(job: Job) -> None:
    job.module(
        """
        import array
        KINDS = {
            "bytes": b"1\\0", "text": "ä", "empty": "", "bytearray": bytearray(b"2"),
            "view": memoryview(b"abcdef")[::2], "array": array.array("H", [1, 2]), "large": bytes(9 << 20),
        }
        def make(kind): return KINDS[kind]
        """
    )
    job.run("['bytes', 'text', 'empty', 'bytearray', 'view', 'array', 'large']", name="{}", memory=1000)

    contents = {one.name: one.read_bytes() for one in job.out.iterdir() if one.is_file()}
    assert contents.pop("large") == bytes(9 << 20)
    assert contents == {
        "bytes": b"1\0",
        "text": "ä".encode(),
        "empty": b"",
        "bytearray": b"2",
        "view": b"ace",
        "array": b"\1\0\2\0",
    }


def test_tables_and_arrays_are_written_as_their_names_end(job: Job) -> None:
    numpy = pytest.importorskip("numpy")
    job.module("import numpy\ndef make(number): return numpy.arange(6).reshape(2, 3) + number")

    job.run("range(2)", name="{}.csv")
    job.run("range(2)", name="{}.npy", journal="journal")

    assert (job.out / "1.csv").read_text() == "1,2,3\n4,5,6\n"
    assert numpy.load(job.out / "1.npy").tolist() == [[1, 2, 3], [4, 5, 6]]


def test_csv_files_end_as_asked(job: Job) -> None:
    pytest.importorskip("numpy")
    job.module("import numpy\ndef make(number): return numpy.arange(2).reshape(2, 1)")
    job.run("range(1)", name="{}.csv", final_newline=False)
    assert (job.out / "0.csv").read_text() == "0\n1"


def test_what_is_no_data_is_a_failure_of_its_id_alone(job: Job) -> None:
    job.module("def make(number): return number if number == 3 else plain(number)")

    counts, failures = job.run("range(10)")

    assert (counts[0], counts[2]) == (9, 1)
    ((name, kind, reason),) = failures
    assert (name, kind) == ("data-0003.csv", "encoding")
    assert "not an int" in reason

    job.module("def make(number): return number if number == 3 else b'x'")
    _, failures = job.run("range(10)", name="{}.bin")
    ((name, kind, reason),) = failures
    assert (name, kind) == ("3.bin", "function")
    assert "int" in reason


def test_an_id_that_raises_is_a_failure_with_its_traceback(job: Job, shoal: Command) -> None:
    job.module(
        """
        def deeper(number): raise LookupError(f"nothing for {number}")
        def make(number): return deeper(number) if number == 3 else plain(number)
        """
    )

    counts, failures = job.run("range(10)")

    assert (counts[0], counts[2], counts[4]) == (9, 1, True)
    ((name, kind, reason),) = failures
    assert (name, kind) == ("data-0003.csv", "function")
    assert reason.startswith("the function raised LookupError: nothing for 3\nTraceback")
    assert "in deeper" in reason
    assert "worker.py" not in reason
    said = shoal.run("status", "out").stdout
    assert "LookupError: nothing for 3" in said
    assert "in deeper" in said


def test_a_long_traceback_is_cut(job: Job) -> None:
    job.module("def make(number): raise ValueError('x' * 100_000)")
    _, failures = job.run("range(1)")
    assert len(failures[0][2]) < 6000


def test_sys_exit_in_the_function_ends_its_id_only(job: Job) -> None:
    job.module("def make(number): return sys.exit(5) if number == 3 else plain(number)")
    counts, failures = job.run("range(10)")
    assert (counts[0], counts[2]) == (9, 1)
    assert "SystemExit: 5" in failures[0][2]


def test_what_failed_can_be_made_again_after_mending(job: Job) -> None:
    job.module("def make(number): note('calls', number); return 1 / 0 if number % 5 == 0 else plain(number)")
    assert job.run("range(12)")[0][:3] == [9, 0, 3]
    job.module("def make(number): note('calls', number); return plain(number)")

    assert job.run("range(12)", resume="failed")[0][:3] == [3, 0, 0]

    assert job.contents() == expected(12)
    assert sorted(job.lines("calls")[12:]) == ["0", "10", "5"]


def test_the_first_failure_is_raised_on_request(job: Job) -> None:
    job.module("def make(number): raise LookupError('nothing')")
    said = job.refused("range(10)", on_error="stop")
    assert "ObjectError" in said
    assert "LookupError: nothing" in said


def test_a_name_that_somebody_else_has_is_a_failure_and_stays(job: Job) -> None:
    job.module("make = plain")
    job.out.mkdir()
    (job.out / "data-0002.csv").write_text("mine")

    counts, failures = job.run("range(5)")

    assert (counts[0], counts[2]) == (4, 1)
    assert failures[0][:2] == ["data-0002.csv", "exists"]
    assert (job.out / "data-0002.csv").read_text() == "mine"


def test_a_name_that_leads_out_is_a_failure(job: Job, tmp_path: Path) -> None:
    job.module("def make(text): return text")
    counts, failures = job.run("['a', '../b']", name="{}")
    assert (counts[0], counts[2]) == (1, 1)
    assert failures[0][1] == "unsafe-name"
    assert not (tmp_path / "b").exists()


def test_a_complete_job_is_not_done_again_unless_asked(job: Job) -> None:
    job.module("def make(number): note('calls', number); return plain(number)")
    job.run("range(10)")
    assert job.run("range(10)")[0][0] == 0
    assert len(job.lines("calls")) == 10

    job.module("def make(number): return 'new'")
    assert job.run("range(10)", resume="restart")[0][0] == 10
    assert set(job.contents().values()) == {"new"}


@pytest.mark.parametrize(
    "function",
    ["lambda number: ''", "nested()", "shoal.serve(synthetic='1:1').stop", "functools.partial(print, file=sys.stdout)"],
)
def test_a_function_that_cannot_be_sent_is_refused_before_anything_starts(job: Job, function: str) -> None:
    job.module(
        """
        import functools
        def nested():
            def inner(number): return ""
            return inner
        """
    )
    script = f"""
        import job, shoal
        from job import *
        try:
            shoal.generate({function}, range(3), "out", name="data-{{:04d}}.csv")
        except shoal.ConfigError as error:
            print(error)
    """
    done = job.interpreter.run(script)
    assert "cannot be pickled for the worker processes" in done.stdout, done.stderr
    assert "top level of a module" in done.stdout
    assert not job.out.exists()


@pytest.mark.parametrize("way", ["-c", "-"])
def test_a_function_of_a_program_that_is_no_file_is_refused_with_what_to_do(tmp_path: Path, way: str) -> None:
    script = "import shoal\ndef make(number): return ''\nshoal.generate(make, range(3), 'out', name='{}')\n"
    arguments = [sys.executable, way, *([script] if way == "-c" else [])]
    done = subprocess.run(arguments, cwd=tmp_path, input=script, capture_output=True, text=True, timeout=60)
    assert "ConfigError" in done.stderr
    assert "move it to a module" in done.stderr
    assert not (tmp_path / "out").exists()


GUARDED = """
import shoal
def make(number): return str(number)
if __name__ == "__main__":
    print(shoal.generate(make, range(30), "out", name="data-{:04d}.csv").written)
"""


@pytest.mark.parametrize("arguments", [["program.py"], ["-m", "program"]])
def test_a_function_of_a_script_works_run_either_way(tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "program.py").write_text(GUARDED)
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout == "30\n", done.stderr
    # The other way is the same job.
    other = [sys.executable, *(["-m", "program"] if len(arguments) == 1 else ["program.py"])]
    done = subprocess.run(other, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout == "0\n", done.stderr


def test_a_script_without_the_guard_is_told_so_and_ends(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(GUARDED.replace('__name__ == "__main__"', "True"))
    command = [sys.executable, "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert 'put the call under `if __name__ == "__main__":`' in done.stderr
    assert "worker process" in done.stderr.splitlines()[-2] + done.stderr.splitlines()[-1]
    wait_until(lambda: not processes_in(tmp_path))


def test_a_module_that_workers_cannot_import_ends_the_run_with_the_reason(job: Job) -> None:
    job.module("import multiprocessing\nif multiprocessing.parent_process(): raise OSError('not here')\nmake = plain")
    said = job.refused()
    assert "RunError" in said
    assert "not here" in said


def test_the_function_may_call_shoal_itself(job: Job) -> None:
    job.module(
        """
        def make(number):
            report = shoal.save([("x", plain(number))], f"side/{number}")
            return f"{report.written}"
        """
    )
    assert job.run("range(4)")[0][0] == 4
    assert set(job.contents().values()) == {"1"}


def test_the_function_cannot_call_generate(job: Job) -> None:
    job.module("def make(number): return str(shoal.generate(plain, range(2), 'inner', name='{}').written)")
    counts, failures = job.run("range(2)")
    assert counts[2] == 2
    assert "ConfigError" in failures[0][2]


@pytest.mark.parametrize(
    ("ids", "options", "words"),
    [
        ("range(3)", {"name": "data.csv"}, "gives every id the same name"),
        ("range(3)", {"name": "{:s}"}, "cannot format the id 0"),
        ("['a', 'b']", {}, "cannot format the id 'a'"),
        ("range(3)", {"name": "{} {}"}, "cannot format the id 0"),
        ("iter([1])", {}, "must be a range or a sequence"),
        ("'abc'", {}, "must be a range or a sequence"),
        ("[1, 2.5]", {}, "must contain only int or str, got 2.5"),
        ("range(3)", {"workers": 0}, "workers"),
    ],
)
def test_an_argument_that_is_wrong_is_refused_before_anything_starts(
    job: Job, ids: str, options: dict[str, Any], words: str
) -> None:
    job.module("make = plain")
    said = job.refused(ids, **options)
    assert "ConfigError" in said
    assert words in said
    assert not job.out.exists()


def test_nothing_can_be_generated_into_null(job: Job) -> None:
    job.module("make = plain")
    with pytest.raises(package.ConfigError, match="null:"):
        package.generate(len, range(3), "null:", name="{}")


def test_exceptions_that_have_no_plain_text_are_failures_like_others(job: Job) -> None:
    job.module(r"""
class Meta(type):
    def __getattribute__(cls, name):
        if name == "__qualname__": raise RuntimeError("no name")
        return super().__getattribute__(name)

class Odd(Exception, metaclass=Meta):
    def __str__(self): raise RuntimeError("no text")

def make(number):
    if number == 3: raise ValueError("bad name: \udcff")
    if number == 5: raise Odd
    return "x"
""")

    counts, failures = job.run("range(20)", workers=1)

    assert counts == [18, 0, 2, 18, True]
    assert [kind for _, kind, _ in failures] == ["function", "function"]
    assert "bad name: \\udcff" in "".join(reason for _, _, reason in failures)


def test_workers_are_threads_where_there_is_no_gil(job: Job) -> None:
    # The same loops over the same pipes; here with a GIL, which only makes them slower.
    job.module("def make(number): return 1 / 0 if number == 3 else f'{os.getpid()}'")
    script = """
        import os, shoal, job
        from shoal._generate import supervisor
        supervisor.in_threads = lambda: True
        report = shoal.generate(job.make, range(200), "out", name="data-{:04d}.csv", workers=2, on_error="record")
        print(report.written, report.failed, report.workers, open("out/data-0000.csv").read() == str(os.getpid()))
    """
    done = job.interpreter.run(script)
    assert done.stdout == "199 1 2 True\n", done.stderr
