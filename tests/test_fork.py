"""Forks: a child never hangs, what belonged to its parent raises, what is new works."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Interpreter, Service

PATIENCE = 30  # s for a script; a child that hangs is ended by its own alarm long before


def test_a_run_in_a_child_forked_after_a_run_works(interpreter: Interpreter, service: Service, tmp_path: Path) -> None:
    script = """
        import os, shoal, signal, sys
        shoal.copy(sys.argv[1], "first")
        for attempt in range(20):
            child = os.fork()
            if not child:
                signal.alarm(15)
                report = shoal.copy(sys.argv[1], f"child{attempt}")
                os._exit(0 if report.written == 50 else 1)
            assert os.waitpid(child, 0)[1] == 0, attempt
        print(shoal.copy(sys.argv[1], "last").written)
    """
    done = interpreter.run(script, service(synthetic="50:10").url, timeout=PATIENCE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "50\n", "")


def test_a_fork_while_a_run_is_live_harms_neither(interpreter: Interpreter, service: Service) -> None:
    script = """
        import os, shoal, signal, sys, threading
        live = threading.Event()
        reports = []
        def run():
            reports.append(shoal.copy(sys.argv[1], "parent", limit_rate="2kB", progress=lambda _: live.set()))
        thread = threading.Thread(target=run)
        thread.start()
        assert live.wait(10)
        for attempt in range(20):
            child = os.fork()
            if not child:
                signal.alarm(15)
                report = shoal.copy(sys.argv[1], f"child{attempt}")
                # Through the interpreter's own exit, with the parent's run in its memory.
                sys.exit(0 if report.written == 500 else 1)
            assert os.waitpid(child, 0)[1] == 0, attempt
            if not thread.is_alive():
                break
        thread.join()
        print(reports[0].written, attempt >= 2)
    """
    done = interpreter.run(script, service(synthetic="500:10").url, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "500 True\n", "")


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_worker_processes_of_every_kind_can_copy(
    interpreter: Interpreter, service: Service, tmp_path: Path, method: str
) -> None:
    script = tmp_path / "workers.py"
    script.write_text(
        "import multiprocessing, shoal, sys\n"
        "def work(number):\n"
        "    return shoal.copy(sys.argv[1], f'out{number}').written\n"
        "if __name__ == '__main__':\n"
        "    work('main')\n"
        "    with multiprocessing.get_context(sys.argv[2]).Pool(2) as pool:\n"
        "        print(pool.map(work, range(6)))\n"
    )
    run = "import runpy, sys; sys.argv.pop(0); runpy.run_path(sys.argv[0], run_name='__main__')"
    if method != "fork":
        # The children import the main module by its path, so that it must have been started by it.
        run = "import os, sys; os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    done = interpreter.run(run, script, service(synthetic="100:10").url, method, timeout=PATIENCE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[100, 100, 100, 100, 100, 100]\n", "")


def test_a_service_of_the_parent_raises_in_a_child_and_goes_on_in_the_parent(interpreter: Interpreter) -> None:
    script = """
        import os, shoal, signal, sys, urllib.request
        server = shoal.serve(synthetic="1:1")
        url = server.url
        child = os.fork()
        if not child:
            signal.alarm(15)
            raised = 0
            for use in (lambda: server.url, lambda: server.port, lambda: server.stats, lambda: server.stop(),
                        lambda: server.__exit__(None, None, None)):
                try:
                    use()
                except RuntimeError as error:
                    assert "forked child" in str(error) and "spawn" in str(error)
                    raised += 1
            del server
            with shoal.serve(synthetic="1:1") as mine:
                assert urllib.request.urlopen(mine.url + "/get/object-000000000").read() == b"o"
            sys.exit(raised)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
        print(urllib.request.urlopen(url + "/get/object-000000000").read())
        server.stop()
    """
    done = interpreter.run(script, timeout=PATIENCE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "b'o'\n", "")


def test_a_child_forked_inside_a_progress_function_ends_with_a_runtime_error(
    interpreter: Interpreter, service: Service
) -> None:
    script = """
        import os, shoal, signal, sys
        codes = []
        def progress(_):
            if not codes:
                child = os.fork()
                if not child:
                    signal.alarm(15)
                    return
                codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        report = shoal.copy(sys.argv[1], "out", limit_rate="40kB", progress=progress)
        print(codes, report.written)
    """
    done = interpreter.run(script, service(synthetic="2000:10").url, timeout=PATIENCE)
    assert (done.returncode, done.stdout) == (0, "[1] 2000\n")
    assert "RuntimeError: this run belongs to process" in done.stderr
