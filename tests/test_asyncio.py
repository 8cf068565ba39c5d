"""A run in a thread of an asyncio program: it can be awaited, and cancelling the task stops it."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

import shoal as package

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Service


async def copy(source: str, destination: Path, **options: Any) -> package.Report:
    """The recipe of docs/python.md."""
    cancelled = threading.Event()

    def stop_if_cancelled(_: package.Progress) -> None:
        if cancelled.is_set():
            raise asyncio.CancelledError

    running = asyncio.ensure_future(
        asyncio.to_thread(package.copy, source, destination, progress=stop_if_cancelled, **options)
    )
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        cancelled.set()
        await asyncio.wait([running])
        raise


def test_a_run_can_be_awaited_while_others_go_on(service: Service, tmp_path: Path) -> None:
    url = service(synthetic="100:100").url

    async def main() -> tuple[package.Report, ...]:
        return await asyncio.gather(copy(url, tmp_path / "one"), copy(url, tmp_path / "two"))

    assert [report.written for report in asyncio.run(main())] == [100, 100]


def test_cancelling_the_task_stops_the_run_which_the_same_call_resumes(service: Service, tmp_path: Path) -> None:
    url = service(synthetic="20000:1000").url

    async def main() -> None:
        task = asyncio.create_task(copy(url, tmp_path / "out", limit_rate="1MB", durability="none"))
        while not list(tmp_path.glob("out/object-*")):
            await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    stopped = package.status(tmp_path / "out")
    assert stopped.owner is None, "the run has ended"
    assert stopped.runs[0].completed is None
    assert package.copy(url, tmp_path / "out", durability="none").total.written == 20_000
