"""Keys of an S3 store stay where they are: in no message, no file and no object of Python, and with no other host."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import shoal as package
from hostile.oracle import Outcome, Shoal, assert_arrived, numbered
from s3_copies import flags, source
from servers import faults
from servers.fault_server import Exchange
from servers.fixtures import MakeServer, MakeStore
from servers.s3_store import XML, S3Store, failing
from servers.signatures import Key
from trees import tree
from waiting import wait_until

WRAPPER = Path(__file__).parent.parent / "servers" / "private_names.py"
OBJECTS = numbered(60)
KEY = Key("ASIASHOWNNOWHERE", "never+shown/93ac41", "token+of/a7session==")
SECRETS = [KEY.access_key, KEY.secret_key, KEY.token or "", "token%2Bof%2Fa7session%3D%3D", "Signature="]


@pytest.fixture
def store(s3_store: MakeStore, aws: pytest.MonkeyPatch) -> S3Store:
    """A store with a key of a session, which is in the environment."""
    aws.setenv("AWS_ACCESS_KEY_ID", KEY.access_key)
    aws.setenv("AWS_SECRET_ACCESS_KEY", KEY.secret_key)
    aws.setenv("AWS_SESSION_TOKEN", SECRETS[2])
    return s3_store(OBJECTS, page_size=20, keys={KEY.access_key: KEY})


async def tattle(exchange: Exchange) -> None:
    """Refuses as S3 does, and says in the body what it was sent, as S3 does with the signature."""
    sent = "".join(f"<Header>{name}: {text}</Header>" for name, text in exchange.request.headers.items())
    said = f"<Error><Code>SignatureDoesNotMatch</Code><Message>{sent}</Message>{sent}</Error>"
    await exchange.answer(403, said.encode(), XML)


def expired(store: S3Store) -> None:
    """Lets the key expire."""
    store.keys[KEY.access_key] = Key(KEY.access_key, KEY.secret_key, KEY.token, until=0)


Spoil = Callable[[S3Store], None]
# What the store does, the signal that is sent while an object is awaited, the exit code.
ENDINGS: dict[str, tuple[Spoil, signal.Signals | None, int]] = {
    "complete": (lambda _: None, None, 0),
    "refused": (lambda store: store.on_list(tattle), None, 3),
    "refused later": (lambda store: store.on_list(tattle, skip=2), None, 3),
    "an object refused": (lambda store: store.on_object("plain-0050", tattle), None, 3),
    "an object denied": (lambda store: store.on_object("plain-0050", failing(403, "AccessDenied")), None, 1),
    "expired": (expired, None, 3),
    "interrupted": (lambda store: store.on_object("plain-0050", faults.cut_head(0, "hold")), signal.SIGINT, 130),
    "killed": (lambda store: store.on_object("plain-0050", faults.cut_head(0, "hold")), signal.SIGKILL, -9),
}


def assert_nothing_shows(directory: Path, *outcomes: Outcome) -> None:
    """Fails if a secret was said, or is in a file."""
    texts = {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    assert any(name.endswith("journal.db") for name in texts)
    for outcome in outcomes:
        texts |= {"stdout": outcome.stdout.encode(), "stderr": outcome.stderr.encode()}
        for secret in SECRETS:
            shown = [name for name, text in texts.items() if secret.encode() in text]
            assert not shown, f"{secret} is in {shown} of {outcome}"


@pytest.mark.parametrize("log", ["text", "json"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_no_key_is_said_or_kept_however_a_run_ends(shoal_command: Shoal, store: S3Store, ending: str, log: str) -> None:
    spoil, stopped_by, code = ENDINGS[ending]
    spoil(store)
    options = [*flags(store), "--log-format", log, "--progress", "plain", "--timeout", "20"]
    running = shoal_command.start_copy("s3://bucket", *options)
    if stopped_by:
        wait_until(lambda: len(store.asked("plain-0050")) > 0)
        running.process.send_signal(stopped_by)
    outcome = running.wait(30)
    assert outcome.code == code, outcome
    status = [shoal_command.run("status", shoal_command.out, *form) for form in (["--json"], ["--failures", "all"])]
    assert_nothing_shows(shoal_command.directory, outcome, *status)
    store.heal()
    store.keys[KEY.access_key] = KEY
    again = shoal_command.copy("s3://bucket", *options, *(["--retry-failed"] if code == 1 else []))
    assert again.code == 0, again
    assert tree(shoal_command.out) == OBJECTS
    assert_nothing_shows(shoal_command.directory, again)


def test_a_source_shows_no_key_and_its_pickle_has_none(store: S3Store, tmp_path: Path) -> None:
    for one in (source(store, credentials=None), source(store, credentials=KEY.given)):
        for text in (repr(one), str(one), str(vars(one)) if hasattr(one, "__dict__") else ""):
            assert not [secret for secret in SECRETS if secret in text]
    kept = pickle.dumps(source(store, credentials=None))
    assert not [secret for secret in SECRETS if secret.encode() in kept]
    assert package.copy(pickle.loads(kept), tmp_path / "out").written == 60


def test_an_exception_and_its_report_show_no_key(store: S3Store, tmp_path: Path) -> None:
    store.on_list(tattle, skip=1)
    with pytest.raises(package.CredentialsError) as raised:
        package.copy(source(store, credentials=KEY.given), tmp_path / "out")
    said = f"{raised.value} {raised.value!r} {raised.value.report!r} {vars(raised.value)}"
    assert not [secret for secret in SECRETS if secret in said], said


@pytest.mark.parametrize("element", ["Message", "Code", "Region"])
def test_a_long_token_is_not_shown_in_part(
    shoal_command: Shoal, store: S3Store, aws: pytest.MonkeyPatch, element: str
) -> None:
    token = "QmFzZTY0/" * 40
    store.on_any(failing(403, "AccessDenied", None, **{element: f"{'x' * 100} {token}"}))
    aws.setenv("AWS_SESSION_TOKEN", token)
    outcome = shoal_command.run("copy", "s3://bucket", shoal_command.out, *flags(store))
    assert outcome.code != 0
    assert token[:12] not in outcome.stdout + outcome.stderr


@pytest.mark.parametrize("code", [301, 302, 307, 308])
@pytest.mark.parametrize("what", ["the list", "an object"])
def test_no_redirect_takes_a_key_to_another_host(
    shoal_command: Shoal, store: S3Store, fault_server: MakeServer, code: int, what: str
) -> None:
    elsewhere = fault_server(OBJECTS).start()
    away = faults.status(code, b"", {"Location": f"{elsewhere.url}/bucket/plain-0050", "x-amz-bucket-region": "x"})
    if what == "the list":
        store.on_list(away)
    else:
        store.on_object("plain-0050", away)
    outcome = shoal_command.copy("s3://bucket", *flags(store))
    assert outcome.code in (1, 2, 3), outcome
    assert elsewhere.requests == []


def test_a_bucket_is_part_of_the_host_in_virtual_style(shoal_command: Shoal, store: S3Store) -> None:
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        pytest.skip("needs root, for mounts of its own")
    hosts = shoal_command.directory / "hosts"
    hosts.write_text("127.0.0.1 localhost store.test bucket.store.test\n")
    shoal_command.within = ["unshare", "--mount", sys.executable, str(WRAPPER), f"{hosts}=/etc/hosts", "--"]
    options = ["--endpoint", f"http://store.test:{store.port}", "--region", "us-east-1", "--addressing"]
    assert_arrived(shoal_command.copy("s3://bucket", *options, "virtual"), OBJECTS)
    assert set(store.headers_of("host")) == {f"bucket.store.test:{store.port}"}
    assert store.requests[0].target.startswith("/?")
    assert store.refusals == []
