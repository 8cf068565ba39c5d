"""Headers that a program prints (`--header-command`), and passwords from a netrc file (`--netrc`)."""

from __future__ import annotations

import base64
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

import shoal as package
from conftest import Command
from servers.token_server import TokenServer
from servers.url_server import Answer, UrlServer
from shoal import _credentials

SECRET = "hidden-5c81"


def printing(directory: Path, *lines: str) -> str:
    """Returns the command line of a program with these lines of Python."""
    script = directory / "give.py"
    script.write_text("\n".join(lines))
    return shlex.join([sys.executable, str(script)])


def test_a_program_gives_each_token_of_a_copy(tmp_path: Path, shoal: Command) -> None:
    class Issuer(UrlServer):
        """Issues tokens in this process; the program fetches them from here."""

        def answer(self, path: str) -> Answer:
            return Answer(f"\nAuthorization: {server.headers()['Authorization']}\n\n".encode())

    with TokenServer(200, life=0.5, delay=0.02) as server, Issuer() as issuer:
        program = printing(
            tmp_path,
            "import sys, urllib.request",
            f"print(urllib.request.urlopen({issuer.url!r}).read().decode())",
            f"print('{SECRET} is nothing to see', file=sys.stderr)",
        )
        done = shoal.run(
            *("copy", server.url, "out", "--workers", "4", "-v"),
            *("--header", "X-More: 1", "--header-command", program),
        )
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "out").glob("object-*")} == set(server.names)
    assert len(server.issued) == len(server.used) > 2
    for text in (done.stdout, done.stderr, *(path.read_bytes().decode("latin1") for path in journal(tmp_path / "out"))):
        assert SECRET not in text
        assert "7f3a" not in text


def journal(out: Path) -> list[Path]:
    """Returns the files that a run keeps for itself."""
    files = [path for path in (out / ".shoal").rglob("*") if path.is_file()]
    assert files
    return files


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (
            [
                f"import sys; print('A: {SECRET}')",
                f"print('{SECRET}\\nnot\\x1b ready', file=sys.stderr); sys.exit(3)",
            ],
            "failed with exit status 3: not? ready",
        ),
        ([f"import os; print('A: {SECRET}', flush=True); os.kill(os.getpid(), 9)"], "failed with signal 9"),
        ([f"print('{SECRET}')"], "must print headers as lines `Name: value`"),
        ([""], "must print headers as lines `Name: value`"),
        ([f"print('A: \\xe9{SECRET}')"], "must print headers as lines `Name: value`"),
        ([f"print('A B: {SECRET}')"], "this header cannot be sent"),
        ([f"import time; print('A: {SECRET}', flush=True); time.sleep(60)"], "did not end within 0.5 s"),
    ],
    ids=["fails", "killed", "no header", "nothing", "not ascii", "no valid header", "too long"],
)
def test_a_program_that_gives_no_headers_is_an_error_that_does_not_show_what_it_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str], why: str
) -> None:
    monkeypatch.setattr(_credentials, "COMMAND_LIMIT", 0.5 if "sleep" in lines[0] else 60)
    with TokenServer(3) as server:
        source = package.list_get(server.url, header_command=printing(tmp_path, *lines))
        with pytest.raises((package.CredentialsError, package.ConfigError)) as raised:
            package.copy(source, tmp_path / "out")
    assert why in str(raised.value)
    assert SECRET not in str(raised.value)
    assert str(tmp_path) not in str(raised.value), "arguments may be secrets"


def test_a_program_that_fails_ends_a_command_like_wrong_credentials(tmp_path: Path, shoal: Command) -> None:
    with TokenServer(3) as server:
        done = shoal.run("copy", server.url, "out", "--header-command", f"/bin/false {SECRET}")
        missing = shoal.run("copy", server.url, "out", "--header-command", f"./missing {SECRET}")
        rejected = shoal.run("copy", server.url, "out")
    assert done.returncode == missing.returncode == rejected.returncode
    assert 'the program "/bin/false" of --header-command failed with exit status 1' in done.stderr
    assert 'the program "./missing" of --header-command cannot be run: no such file' in missing.stderr
    assert SECRET not in done.stderr + missing.stderr


def test_a_program_may_leave_another_one_in_the_background(tmp_path: Path) -> None:
    program = printing(
        tmp_path,
        "import subprocess, sys",
        "print('Authorization: Bearer 1', flush=True)",
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])",
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid))",
    )
    try:
        assert _credentials.Command(program)() == [("Authorization", "Bearer 1")]
        os.kill(int((tmp_path / "pid").read_text()), 0)  # it still runs
    finally:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def test_no_shell_reads_the_command(tmp_path: Path) -> None:
    made = tmp_path / "made"
    for text in (f"echo 'A: b'; touch {made}", f"echo $(touch {made})", f"echo > {made}"):
        with TokenServer(3) as server, pytest.raises(package.ShoalError):
            package.copy(package.list_get(server.url, header_command=text), tmp_path / "out")
    assert not made.exists()


@pytest.mark.parametrize("text", ["'unclosed", "   "])
def test_a_command_that_cannot_be_split_is_an_error_at_once(tmp_path: Path, text: str) -> None:
    with pytest.raises(package.ConfigError, match="header_command"):
        package.copy(package.list_get("http://127.0.0.1:1", header_command=text), tmp_path / "out")


def test_a_command_and_a_function_cannot_be_used_together(tmp_path: Path) -> None:
    with pytest.raises(package.ConfigError, match="cannot be used together"):
        package.copy(package.list_get("http://127.0.0.1:1", header_command="x", headers=dict), tmp_path / "out")


def test_the_command_is_not_shown(tmp_path: Path) -> None:
    assert SECRET not in repr(package.list_get("http://h", header_command=f"x {SECRET}"))


@pytest.mark.parametrize(("given", "sent"), [((), "*/*"), ({"accept": "image/png"}, "image/png")])
def test_any_type_is_accepted_unless_the_user_says_which(given: Any, sent: str) -> None:
    with UrlServer() as server:
        assert len(list(package.read(package.urls([f"{server.url}/a"], headers=given)))) == 1
        assert [value for name, value in server.requests[0][1].items() if name.lower() == "accept"] == [sent]


def basic(login: str) -> str:
    """Returns the header of a name and a password."""
    return f"Basic {base64.b64encode(login.encode()).decode()}"


def authorizations(server: UrlServer) -> set[str | None]:
    """Returns what a server was sent."""
    return {headers.get("authorization", headers.get("Authorization")) for _, headers in server.requests}


def test_each_host_gets_its_own_password_and_no_other(tmp_path: Path, shoal: Command) -> None:
    with UrlServer("127.0.0.1") as one, UrlServer("127.0.0.2") as two, UrlServer("127.0.0.3") as none:
        netrc = tmp_path / "passwords"
        netrc.write_text(
            f"machine 127.0.0.1 login me password {SECRET}-1\n"
            f"machine 127.0.0.2 login you password {SECRET}-2\n"
            f"default login anyone password {SECRET}-3\n"
        )
        one.answers["/redirected"] = Answer(status=302, headers={"Location": f"{two.url}/there"})
        urls = [f"{server.url}/{number}" for server in (one, two, none) for number in range(5)]
        (tmp_path / "list").write_text("\n".join([*urls, f"{one.url}/redirected"]))
        done = shoal.run("copy", "--urls", "list", "out", "--netrc", "--name", "{hash}", "-v", NETRC=str(netrc))
        assert done.returncode == 0, done.stderr
        assert authorizations(one) == {basic(f"me:{SECRET}-1")}
        assert {path for path, headers in two.requests if basic(f"you:{SECRET}-2") not in headers.values()} == {
            "/there"
        }
        assert authorizations(none) == {None}
    for text in (done.stdout, done.stderr, *(path.read_bytes().decode("latin1") for path in journal(tmp_path / "out"))):
        assert SECRET not in text


def test_a_service_gets_the_password_of_the_file_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "netrc").write_text(f"machine 127.0.0.1 login me password {SECRET}\n")
    with UrlServer() as server:
        server.answers["/list"] = Answer(b'{"FileNames": ["a"]}')
        for source, expected in [
            (package.list_get(server.url, netrc=tmp_path / "netrc"), basic(f"me:{SECRET}")),
            (package.list_get(server.url.replace("//", "//u:p@"), netrc=tmp_path / "netrc"), basic("u:p")),
            (package.list_get(server.url, netrc=tmp_path / "netrc", headers={"Authorization": "own"}), "own"),
            (package.list_get(server.url), None),
        ]:
            server.requests.clear()
            assert [obj.name for obj in package.read(source)] == ["a"]
            assert authorizations(server) == {expected}
            assert SECRET not in repr(source)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "cannot read .*netrc.*no such file"),
        (f"machine h login me password\nmachine {SECRET} x", "not a valid netrc file at line 2"),
        ("machine h login \xff", "not a valid netrc file"),
    ],
)
def test_a_file_that_is_no_netrc_file_is_an_error_that_does_not_show_it(
    tmp_path: Path, text: str | None, why: str
) -> None:
    path = tmp_path / "netrc"
    if text is not None:
        path.write_bytes(text.encode("latin1"))
    with pytest.raises(package.ConfigError, match=why) as raised:
        package.copy(package.list_get("http://127.0.0.1:1", netrc=path), tmp_path / "out")
    assert SECRET not in str(raised.value)
