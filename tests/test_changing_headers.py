"""Headers that a function gives: when it is called, by which thread, and how a run ends that gets no valid ones.

Programs and netrc files are in `test_header_sources.py`.
"""

from __future__ import annotations

import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import shoal as package
from conftest import Interpreter
from servers.token_server import TokenServer
from servers.url_server import Answer, UrlServer


class Calls:
    """A function for headers, and the threads that have called it."""

    def __init__(self, give: Callable[[], Any]) -> None:
        """Takes what gives the headers."""
        self.give = give
        self.threads: list[int] = []

    def __call__(self) -> Any:
        """Returns the headers."""
        self.threads.append(threading.get_ident())
        return self.give()

    def assert_on_this_thread(self) -> None:
        """Fails if another thread has called it, or none."""
        assert set(self.threads) == {threading.get_ident()}


def copied(server: TokenServer, out: Path) -> set[str]:
    """Returns the names of the objects that are right."""
    return {name for name in server.names if (out / name).read_text() == name}


def assert_each_token_was_used(server: TokenServer, calls: Calls) -> None:
    """Fails if a token was asked for that was not needed."""
    assert len(calls.threads) == len(server.issued) == len(server.used)
    calls.assert_on_this_thread()


@pytest.mark.parametrize(("pipeline", "echoes"), [("off", False), ("auto", True), (8, False)])
def test_a_copy_outlives_its_tokens_and_asks_for_each_once(tmp_path: Path, pipeline: Any, echoes: bool) -> None:
    with TokenServer(500, life=0.3, delay=0.02, echoes=echoes) as server:
        calls = Calls(server.headers)
        source = package.list_get(server.url, headers=calls, pipeline=pipeline)
        report = package.copy(source, tmp_path / "out", workers=4)
    assert (report.written, report.failed, report.retries) == (500, 0, 0)
    assert copied(server, tmp_path / "out") == set(server.names)
    assert len(calls.threads) > 4
    assert_each_token_was_used(server, calls)


@pytest.mark.slow(minutes=1)
@pytest.mark.parametrize("workers", [1, 16])
def test_a_token_of_2_seconds_is_renewed_for_20(tmp_path: Path, workers: int) -> None:
    with TokenServer(1_000 * workers, life=2, delay=0.02) as server:
        calls = Calls(server.headers)
        report = package.copy(package.list_get(server.url, headers=calls), tmp_path / "out", workers=workers)
    assert (report.written, report.failed, report.retries) == (1_000 * workers, 0, 0)
    assert report.seconds > 20
    assert len(calls.threads) >= 10
    assert_each_token_was_used(server, calls)


def test_a_loop_gets_every_object_however_slow_it_is() -> None:
    with TokenServer(300, life=0.3, delay=0.01) as server:
        for pause in (0.0, 0.01):
            calls, names = Calls(server.headers), set()
            for obj in package.read(package.list_get(server.url, headers=calls), workers=4):
                time.sleep(pause)
                names.add(obj.name)
            assert names == set(server.names)
            calls.assert_on_this_thread()


def test_headers_are_given_while_a_loop_has_objects_at_hand() -> None:
    with TokenServer(100, delay=0.001) as server:
        calls = Calls(server.headers)
        with package.read(package.list_get(server.url, headers=calls), workers=2) as reader:
            next(reader)
            while len(server.asked) < len(server.names) + 5:  # pages, too
                time.sleep(0.01)
            server.revoke()
            # All objects are at hand, and nothing waits for the run.
            assert len(list(reader)) == 99
            assert len(calls.threads) == 1


def test_what_save_reads_and_batches_and_listings_call_it_too(tmp_path: Path) -> None:
    with TokenServer(200, life=0.3, delay=0.01) as server:
        calls = Calls(server.headers)
        source = package.list_get(server.url, headers=calls)
        items = ((obj.name, bytes(obj.data)) for obj in package.read(source, workers=4))
        assert package.save(items, tmp_path / "out").written == 200
        assert copied(server, tmp_path / "out") == set(server.names)
        assert sum(len(batch) for batch in package.read(source).batches(64)) == 200
        assert len(list(package.list_objects(source))) == 200
        calls.assert_on_this_thread()


def test_an_arrow_stream_is_refused_since_it_calls_no_function() -> None:
    source = package.list_get("http://127.0.0.1:1", headers=dict)
    for make in (lambda: package.read(source), lambda: package.read(source).batches()):
        with pytest.raises(package.ConfigError, match=r"Arrow stream.*\n.*batches\(\)"):
            make().__arrow_c_stream__()


def test_objects_of_a_list_of_urls_outlive_their_tokens(tmp_path: Path) -> None:
    with TokenServer(400, life=0.3, delay=0.02) as one, TokenServer(0, host="127.0.0.2") as other:
        other.issued, other.life = one.issued, one.life  # two hosts that take the same tokens
        calls = Calls(one.headers)
        urls = [f"{server.url}/get/{name}" for name in one.names for server in (one, other)]
        source = package.urls(urls, headers=calls, name="{host}/{name}", per_host=2)
        report = package.copy(source, tmp_path / "out", workers=4)
    assert (report.written, report.failed) == (800, 0)
    assert len(calls.threads) > 4
    calls.assert_on_this_thread()


def test_the_token_is_renewed_before_requests_are_sent_with_an_expired_one(tmp_path: Path) -> None:
    with TokenServer(400, life=1.0, delay=0.02) as server:
        life = timedelta(seconds=0.5)
        forms = {
            "a time": lambda: (server.headers(), datetime.now(UTC) + life),
            "a time without a zone": lambda: (server.headers(), datetime.now() + life),  # noqa: DTZ005
            "a duration": lambda: (list(server.headers().items()), life),
        }
        for name, form in forms.items():
            calls = Calls(form)
            source = package.list_get(server.url, headers=calls)
            assert package.copy(source, tmp_path / name, workers=4).written == 400
            assert len(calls.threads) > 3
            calls.assert_on_this_thread()
        assert server.refused == 0


def revoked_at(server: TokenServer, written: int) -> Callable[[package.Progress], None]:
    """Returns a progress function that revokes all tokens when so many objects are written."""
    return lambda progress: server.revoke() if progress.run.written >= written else None


def test_new_tokens_that_are_refused_too_stop_the_run_and_another_call_resumes_it(tmp_path: Path) -> None:
    with TokenServer(400, delay=0.005) as server:
        calls = Calls(
            lambda: server.headers() if len(calls.threads) == 1 else {"Authorization": f"Bearer {len(calls.threads)}"}
        )
        source = package.list_get(server.url, headers=calls)
        with pytest.raises(package.CredentialsError, match="401") as raised:
            package.copy(source, tmp_path / "out", workers=2, progress=revoked_at(server, 200))
        assert 2 <= len(calls.threads) <= 4
        assert raised.value.report is not None
        report = package.copy(package.list_get(server.url, headers=server.headers), tmp_path / "out")
        assert report.ok
        assert report.resumed_from == raised.value.report.written > 0
    assert copied(server, tmp_path / "out") == set(server.names)


def test_the_same_token_again_stops_the_run(tmp_path: Path) -> None:
    with TokenServer(300, delay=0.005) as server:
        token = server.headers()
        calls = Calls(lambda: token)
        source = package.list_get(server.url, headers=calls)
        with pytest.raises(package.CredentialsError, match="401"):
            package.copy(source, tmp_path / "out", workers=2, progress=revoked_at(server, 50))
    assert len(calls.threads) == 2


def test_a_token_that_never_was_accepted_stops_the_run_at_its_listing(tmp_path: Path) -> None:
    with TokenServer(3) as server:
        calls = Calls(lambda: {"Authorization": f"Bearer {len(calls.threads)}"})
        with pytest.raises(package.CredentialsError, match="401"):
            package.copy(package.list_get(server.url, headers=calls), tmp_path / "out")
    assert len(calls.threads) == 2


def test_an_object_that_is_always_refused_stops_the_run_of_a_service_and_fails_in_a_list(tmp_path: Path) -> None:
    with TokenServer(200, delay=0.002) as server:
        server.instead["object-00100"] = 401, {}
        calls = Calls(server.headers)
        with pytest.raises(package.CredentialsError, match="401"):
            package.copy(package.list_get(server.url, headers=calls), tmp_path / "service", workers=2)
        assert len(calls.threads) <= 3
        urls = package.urls([f"{server.url}/get/{name}" for name in server.names], headers=calls)
        calls.threads.clear()
        report = package.copy(urls, tmp_path / "list", workers=2, on_error="record")
        assert (report.written, report.failed) == (199, 1)
        assert len(calls.threads) <= 3


def test_a_forbidden_object_asks_once_and_fails_if_the_headers_stay_the_same(tmp_path: Path) -> None:
    with TokenServer(200, delay=0.002) as server:
        forbidden = ["object-00050", "object-00120", "object-00180"]
        server.instead |= dict.fromkeys(forbidden, (403, {}))
        token = server.headers()
        calls = Calls(lambda: token)
        source = package.list_get(server.url, headers=calls)
        report = package.copy(source, tmp_path / "out", workers=2, on_error="record")
        assert (report.written, report.failed) == (197, 3)
        assert {failure.kind for failure in report.failures} == {"forbidden"}
    assert len(calls.threads) == 2


def test_a_forbidden_object_is_copied_if_new_headers_allow_it(tmp_path: Path) -> None:
    with TokenServer(50) as server:
        server.denied, server.refusal = {"token-1-of-7f3a"}, 403
        report = package.copy(package.list_get(server.url, headers=server.headers), tmp_path / "out")
        assert (report.written, report.failed) == (50, 0)


@pytest.mark.parametrize("fields", [{"Retry-After": "1"}, {"x-ratelimit-remaining": "0"}], ids=str)
@pytest.mark.parametrize("changing", [False, True])
def test_403_that_asks_to_slow_down_is_retried(tmp_path: Path, fields: dict[str, str], changing: bool) -> None:
    with TokenServer(30) as server:
        server.instead["object-00010"] = 403, fields
        calls = Calls(server.headers)
        source = package.list_get(server.url, headers=calls if changing else server.headers())

        def opened(progress: package.Progress) -> None:
            if progress.retries:
                server.instead.clear()

        report = package.copy(source, tmp_path / "out", progress=opened)
    assert (report.written, report.failed) == (30, 0)
    assert report.retries >= 1
    assert len(calls.threads) == changing


def report_of(error: BaseException) -> package.Report:
    """The report of a run that an exception of the user's function has ended."""
    report = getattr(error, "report", None)
    assert isinstance(report, package.Report)
    return report


@pytest.fixture
def failing() -> Iterator[tuple[TokenServer, Calls]]:
    """A service, and a function that fails when it is called for the fourth time."""
    with TokenServer(400, life=0.3, delay=0.01) as server:

        def give() -> dict[str, str]:
            if len(calls.threads) > 3:
                raise LookupError("no more tokens")
            return server.headers()

        calls = Calls(give)
        yield server, calls


def test_what_the_function_raises_ends_a_copy_that_can_be_resumed(
    tmp_path: Path, failing: tuple[TokenServer, Calls]
) -> None:
    server, calls = failing
    with pytest.raises(LookupError, match="no more tokens") as raised:
        package.copy(package.list_get(server.url, headers=calls), tmp_path / "out", workers=2)
    before = report_of(raised.value)
    assert 0 < before.written < 400
    report = package.copy(package.list_get(server.url, headers=server.headers), tmp_path / "out", workers=2)
    assert report.ok
    assert report.resumed_from == before.written
    assert copied(server, tmp_path / "out") == set(server.names)


def test_what_the_function_raises_ends_a_loop(failing: tuple[TokenServer, Calls]) -> None:
    server, calls = failing
    names: list[str] = []
    with pytest.raises(LookupError, match="no more tokens") as raised:
        names.extend(obj.name for obj in package.read(package.list_get(server.url, headers=calls), workers=2))
    assert 0 < len(names) < 400
    assert not report_of(raised.value).complete
    calls.assert_on_this_thread()


@pytest.mark.parametrize("raises", [StopIteration, StopAsyncIteration])
@pytest.mark.parametrize(
    "loop",
    [package.read, lambda source: package.read(source).batches(16), package.list_objects],
    ids=["read", "batches", "list_objects"],
)
def test_a_stop_iteration_of_the_function_ends_no_loop_as_if_it_were_complete(loop: Any, raises: Any) -> None:
    def give() -> Any:
        if len(calls.threads) > 1:
            raise raises("no more")
        return {"Authorization": "Bearer none"}

    with TokenServer(200) as server:
        calls = Calls(give)
        with pytest.raises(RuntimeError, match=raises.__name__) as raised:
            list(loop(package.list_get(server.url, headers=calls)))
    assert type(raised.value.__cause__) is raises


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (None, "must return a dict of headers, got NoneType"),
        ({"A": 1}, "must return a dict of headers, got dict"),
        ("A: hidden-5c", "must return a dict of headers, got str"),
        ({"A B": "hidden-5c"}, "cannot be sent"),
        ({"Host": "hidden-5c"}, "cannot be sent"),
        ({"A": "hidden-5c\r\nB: c"}, "cannot be sent"),
        (({"A": "hidden-5c"}, 1e12), "a datetime or a timedelta, got float"),
        (({"A": "hidden-5c"}, timedelta(0)), "already expired\nhint: is the clock"),
        (({"A": "hidden-5c"}, datetime(2020, 1, 1, tzinfo=UTC)), "already expired"),
    ],
    ids=range(9),
)
def test_wrong_headers_are_an_error_that_does_not_show_them(tmp_path: Path, given: object, why: str) -> None:
    with TokenServer(3) as server, pytest.raises(package.ConfigError) as raised:
        package.copy(package.list_get(server.url, headers=lambda: given), tmp_path / "out")  # type: ignore[arg-type,return-value]
    assert why in str(raised.value)
    assert "hidden-5c" not in str(raised.value)


def test_nothing_is_asked_for_if_nothing_is_requested(tmp_path: Path) -> None:
    with TokenServer(5) as server:
        calls = Calls(server.headers)
        source = package.list_get(server.url, headers=calls)
        assert package.copy(source, tmp_path / "out").ok
        assert package.copy(source, tmp_path / "out").completed_before
    assert len(calls.threads) == 1


def test_another_host_gets_no_header_and_its_401_asks_for_none(tmp_path: Path) -> None:
    with UrlServer("127.0.0.2") as other, TokenServer(20) as server:
        other.answers["/object"] = Answer(status=401)
        server.instead["object-00007"] = 302, {"Location": f"{other.url}/object"}
        calls = Calls(server.headers)
        source = package.list_get(server.url, headers=calls, allow_host=other.authority)
        with pytest.raises(package.CredentialsError):
            package.copy(source, tmp_path / "out")
    assert len(calls.threads) == 1
    assert all("authorization" not in {name.lower() for name in headers} for _, headers in other.requests)


def test_nothing_of_the_headers_is_shown_or_stored(tmp_path: Path) -> None:
    with TokenServer(50, life=0.2, delay=0.01) as server:
        source = package.list_get(server.url, headers=Calls(server.headers))
        assert "headers='***'" in repr(source)
        report = package.copy(source, tmp_path / "out", workers=2)
        assert report.ok
        assert "7f3a" not in repr(report) + str(report.to_dict())
    files = [path for path in (tmp_path / "out" / ".shoal").rglob("*") if path.is_file()]
    assert files
    assert all(b"7f3a" not in path.read_bytes() for path in files)


def test_a_described_source_with_a_function_can_be_pickled() -> None:
    source = pickle.loads(pickle.dumps(package.list_get("http://h", headers=dict)))
    assert source.headers is dict


BLOCKS = """
    import sys, time, shoal
    from servers.token_server import TokenServer

    def blocks():
        print("going", flush=True)
        time.sleep(60)

    with TokenServer(10) as server:
        source = shoal.list_get(server.url, headers=blocks)
        if sys.argv[1] == "copy":
            shoal.copy(source, "out")
        for obj in shoal.read(source):
            pass
"""


@pytest.mark.parametrize("function", ["copy", "read"])
def test_ctrl_c_while_the_function_blocks_ends_the_run(
    interpreter: Interpreter, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))
    interpreter.interrupt(BLOCKS, function)


KILLED = """
    import sys, shoal

    def give():
        return {"Authorization": "Bearer " + open("token").read()}

    shoal.copy(shoal.list_get(sys.argv[1], headers=give), "out", workers=2)
"""


def test_a_run_that_was_killed_goes_on_with_the_next_token(tmp_path: Path, interpreter: Interpreter) -> None:
    with TokenServer(500, delay=0.01) as server:

        def renew() -> None:
            server.revoke()
            (tmp_path / "token").write_text(server.headers()["Authorization"].removeprefix("Bearer "))

        renew()
        process = interpreter.start(KILLED, server.url)
        while len(server.asked) < 100:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=30)
        renew()
        done = interpreter.run(KILLED, server.url)
        assert done.returncode == 0, done.stderr
    assert copied(server, tmp_path / "out") == set(server.names)
