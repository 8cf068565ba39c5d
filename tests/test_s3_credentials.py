"""Keys of an S3 store: where they come from, when they are asked for, and what becomes of those that are refused.

Not here: that they are shown nowhere (`hostile/test_s3_secrets.py`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import shoal as package
from conftest import Command
from hostile.oracle import numbered
from s3_copies import flags, source
from servers.fixtures import MakeStore
from servers.s3_store import S3Store
from servers.signatures import Key
from test_changing_headers import Calls
from trees import tree

OBJECTS = numbered(250)
pytestmark = pytest.mark.usefixtures("aws")


# Where they come from


@pytest.mark.parametrize("token", [False, True])
@pytest.mark.parametrize("place", ["the environment", "the default profile", "AWS_PROFILE", "--profile"])
def test_a_key_comes_from_the_environment_or_a_profile(
    tmp_path: Path, shoal: Command, s3_store: MakeStore, place: str, token: bool
) -> None:
    store = s3_store(OBJECTS)
    key, other = store.session(60) if token else Key(), Key("AKIDNOBODY", "none")
    for name in [name for name in shoal.environment if name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")]:
        del shoal.environment[name]
    names = ["default", "other"] if place == "the default profile" else ["mine", "default"]
    with (tmp_path / "keys").open("w") as file:
        for name, its in zip(names, (key, other), strict=True):
            file.write(f"[{name}]\naws_access_key_id = {its.access_key}\naws_secret_access_key={its.secret_key}\n")
            file.write(f"aws_session_token = {its.token}\n" if its.token else "")
    shoal.environment["AWS_SHARED_CREDENTIALS_FILE"] = str(tmp_path / "keys")
    if place == "the environment":
        shoal.environment |= {"AWS_ACCESS_KEY_ID": key.access_key, "AWS_SECRET_ACCESS_KEY": key.secret_key}
        shoal.environment |= {"AWS_SESSION_TOKEN": key.token} if key.token else {}
    if place in ("AWS_PROFILE", "--profile"):
        shoal.environment["AWS_PROFILE"] = "mine" if place == "AWS_PROFILE" else "default"
    options = ["--profile", "mine"] if place == "--profile" else []
    done = shoal.run("copy", "s3://bucket", "out", *flags(store), *options)
    assert done.returncode == 0, done.stderr
    assert tree(tmp_path / "out") == OBJECTS
    assert set(store.headers_of("x-amz-security-token")) == {key.token}


def test_the_region_comes_from_the_environment(tmp_path: Path, s3_store: MakeStore, aws: pytest.MonkeyPatch) -> None:
    store = s3_store(OBJECTS, region="eu-north-1")
    aws.setenv("AWS_REGION", "eu-north-1")
    assert package.copy(package.s3("s3://bucket", endpoint=store.url), tmp_path / "out").written == 250
    assert store.refusals == []


def test_without_a_key_nothing_is_sent(tmp_path: Path, s3_store: MakeStore, aws: pytest.MonkeyPatch) -> None:
    store = s3_store(OBJECTS, public=True)
    aws.delenv("AWS_ACCESS_KEY_ID")
    aws.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(package.ShoalError, match="anonymous"):
        package.copy(source(store, credentials=None), tmp_path / "out")
    assert store.requests == []


def test_an_anonymous_copy_signs_nothing(tmp_path: Path, s3_store: MakeStore) -> None:
    store = s3_store(OBJECTS, public=True, page_size=100)
    assert package.copy(source(store, credentials=None, anonymous=True), tmp_path / "out").written == 250
    assert tree(tmp_path / "out") == OBJECTS
    assert set(store.headers_of("authorization")) == set(store.headers_of("x-amz-security-token")) == {None}
    assert store.refusals == []
    store.public = False
    with pytest.raises(package.CredentialsError, match="AccessDenied"):
        package.copy(source(store, credentials=None, anonymous=True), tmp_path / "again")


def test_a_session_of_botocore_gives_keys(tmp_path: Path, s3_store: MakeStore) -> None:
    sessions = pytest.importorskip("botocore.session", reason="botocore is not installed")
    store = s3_store(OBJECTS)
    session = sessions.get_session()
    assert package.copy(source(store, credentials=session), tmp_path / "out").written == 250


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "an unknown key": (lambda: Key("AKIDNOBODY", "none").given(), "InvalidAccessKeyId"),
    "a wrong secret": (lambda: Key().given() | {"secret_key": "none"}, "SignatureDoesNotMatch"),
    "a token of another": (lambda: Key().given() | {"token": "none"}, "InvalidToken"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_key_that_is_refused_stops_the_run_with_the_code(tmp_path: Path, s3_store: MakeStore, wrong: str) -> None:
    store = s3_store(OBJECTS)
    give, code = WRONG[wrong]
    with pytest.raises(package.CredentialsError, match=code):
        package.copy(source(store, credentials=give), tmp_path / "out")
    assert len(store.requests) <= 2
    assert tree(tmp_path / "out") == {}


NOT_KEYS: list[Any] = ["text", {"access_key": "a"}, {"access_key": 1, "secret_key": "s"}, (), None, {"a": "b"}]


@pytest.mark.parametrize("given", NOT_KEYS, ids=str)
def test_what_is_no_key_is_refused_before_anything_is_sent(tmp_path: Path, s3_store: MakeStore, given: Any) -> None:
    store = s3_store(OBJECTS)
    with pytest.raises((package.ConfigError, package.CredentialsError, TypeError, ValueError), match="access_key"):
        package.copy(source(store, credentials=lambda: given), tmp_path / "out")
    assert store.requests == []


# Keys that expire


def sessions(store: S3Store, life: float) -> Calls:
    """Returns a function that gives a new key at each call."""
    return Calls(lambda: store.session(life).given())


def slowed(store: S3Store, seconds: float = 0.02) -> None:
    """Lets each object take a while."""

    async def late(exchange: Any) -> None:
        await exchange.pause(seconds)
        await exchange.healthy()

    store.on_objects(late)


def test_a_copy_outlives_its_keys_and_asks_for_each_once(tmp_path: Path, s3_store: MakeStore) -> None:
    objects = numbered(500)
    store = s3_store(objects, page_size=100)
    slowed(store)
    calls = sessions(store, 0.4)
    report = package.copy(source(store, credentials=calls), tmp_path / "out", workers=4)
    assert (report.written, report.failed, report.retries) == (500, 0, 0)
    assert tree(tmp_path / "out") == objects
    assert set(store.refusals) == {"ExpiredToken"}
    used = set(store.headers_of("x-amz-security-token"))
    assert len(calls.threads) == len(used) > 3, "each key was needed, and is asked for once for all"
    assert set(calls.threads) == {threading.get_ident()}


@pytest.mark.parametrize("form", ["a time", "a duration"])
def test_a_key_is_renewed_before_it_expires(tmp_path: Path, s3_store: MakeStore, form: str) -> None:
    store = s3_store(OBJECTS)
    slowed(store)
    life = timedelta(seconds=0.4)

    def give() -> Any:
        expiry = life if form == "a duration" else datetime.now(UTC) + life
        return store.session(1.5).given(), expiry

    calls = Calls(give)
    report = package.copy(source(store, credentials=calls), tmp_path / "out", workers=2)
    assert (report.written, report.failed) == (250, 0)
    assert len(calls.threads) > 2
    assert store.refusals == []


def test_new_keys_that_have_expired_too_stop_the_run(tmp_path: Path, s3_store: MakeStore) -> None:
    store = s3_store(OBJECTS)
    slowed(store)
    first = store.session(1.2)
    calls = Calls(lambda: first.given() if len(calls.threads) == 1 else store.session(-1).given())
    with pytest.raises(package.CredentialsError, match="ExpiredToken") as raised:
        package.copy(source(store, credentials=calls), tmp_path / "out", workers=2)
    assert 2 <= len(calls.threads) <= 4
    assert raised.value.report is not None
    report = package.copy(source(store), tmp_path / "out")
    assert (report.ok, report.resumed_from) == (True, raised.value.report.written)
    assert tree(tmp_path / "out") == OBJECTS


def test_a_loop_and_a_listing_outlive_their_keys(s3_store: MakeStore) -> None:
    store = s3_store(OBJECTS, page_size=10)
    slowed(store, 0.01)
    calls = sessions(store, 0.3)
    found = {}
    for obj in package.read(source(store, credentials=calls), workers=2):
        found[obj.name] = bytes(obj.data)
        time.sleep(0.004)
    assert found == OBJECTS
    assert len(list(package.list_objects(source(store, credentials=calls)))) == 250
    assert set(calls.threads) == {threading.get_ident()}
