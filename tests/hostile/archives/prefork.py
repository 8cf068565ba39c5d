"""Runs the real command many times without starting Python as often: a process that has it loaded forks for each run.

A program of its own: reads requests from stdin, one JSON object a line, and answers each with one. Every run is a
process of its own, with its own memory, processor time and exit code, all of them told by the kernel.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

import shoal.cli
import shoal.cli.unzip

POLL = 0.002  # seconds


def run(request: dict[str, Any]) -> None:
    """Becomes the command; does not return."""
    for number, name in ((0, os.devnull), (1, request["stdout"]), (2, request["stderr"])):
        file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(file, number)
        os.close(file)
    os.chdir(request["directory"])
    sys.argv = ["shoal", *request["arguments"]]
    shoal.cli.main()


def watch(process: int, limit: float) -> dict[str, Any]:
    """Waits for a run to end; kills it after `limit` seconds."""
    started = time.monotonic()
    while True:
        ended, status, usage = os.wait4(process, os.WNOHANG)
        seconds = time.monotonic() - started
        if ended:
            break
        if seconds > limit:
            os.kill(process, signal.SIGKILL)
        time.sleep(POLL)
    return {
        "code": os.waitstatus_to_exitcode(status),
        "seconds": seconds,
        "processor": usage.ru_utime + usage.ru_stime,
        # Not exec'd, so this begins with what this process holds, not with a peak of somebody else.
        "peak": usage.ru_maxrss * 1024,
    }


def serve() -> None:
    """Answers requests until there are no more."""
    for line in sys.stdin:
        request = json.loads(line)
        process = os.fork()
        if process == 0:
            run(request)
        answer = json.dumps(watch(process, request["limit"])) + "\n"
        os.write(1, answer.encode())


if __name__ == "__main__":
    serve()
