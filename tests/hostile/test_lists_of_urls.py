"""Lists of URLs on hosts that nothing vouches for: certificates, redirects into private networks, very many hosts."""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trustme

import shoal as package
from servers.tls_server import TlsFront
from servers.url_server import Answer, UrlServer
from trees import tree

TESTS = Path(__file__).parent.parent
HERE = "127.0.0.1"


def context(certificate: trustme.LeafCert) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(made)
    return made


def port(server: UrlServer) -> int:
    return int(server.authority.rpartition(":")[2])


def test_a_host_without_a_trusted_certificate_fails_its_own_objects_only(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    good, bad = context(authority.issue_cert(HERE)), context(trustme.CA().issue_cert(HERE))
    with UrlServer() as server, TlsFront(good, port(server)) as trusted, TlsFront(bad, port(server)) as untrusted:
        hosts = {"good": trusted.url, "bad": untrusted.url, "plain": server.url}
        urls = [(f"{name}/{number}", f"{url}/{number}") for number in range(50) for name, url in hosts.items()]
        source = package.urls(urls, ca_file=tmp_path / "ca.pem", retry_timeout=5)
        report = package.copy(source, tmp_path / "out", on_error="record")
    assert (report.written, report.failed, report.total.unfinished) == (100, 50, 0)
    assert {failure.name.partition("/")[0] for failure in report.failures} == {"bad"}
    assert all("certificate" in failure.reason for failure in report.failures)
    assert tree(tmp_path / "out") == {
        name: url.rpartition("/")[2].encode().join([b"/", b""]) for name, url in urls if not name.startswith("bad/")
    }
    assert len(trusted.handshakes) < 20, "connections are kept"


PAGE = b"<html><form action='/login'>Please sign in</form></html>"


@pytest.mark.parametrize("fault", ["login page", "login page, type expected", "403"])
def test_a_host_that_stops_giving_objects_fails_them_or_is_believed_where_no_type_is_expected(
    tmp_path: Path, fault: str
) -> None:
    paths, out = [f"/{number:03}" for number in range(300)], tmp_path / "out"
    gone = paths[100:]
    image = {"Content-Type": "image/png"}
    page = Answer(b"", 403) if fault == "403" else Answer(PAGE, headers={"Content-Type": "text/html"})
    with UrlServer() as server:
        server.answers = {path: Answer(path.encode(), headers=image) for path in paths} | dict.fromkeys(gone, page)
        expected = None if fault == "login page" else "image/*"
        source = package.urls([server.url + path for path in paths], expect_type=expected, max_retries=1)
        report = package.copy(source, out, on_error="record")
        failed = [] if fault == "login page" else gone
        wanted = {path[1:]: path.encode() for path in paths}
        (run,) = package.status(out, failures=None).runs
        assert sorted(failure.name for failure in run.failures) == [path[1:] for path in failed]
        assert (report.written, report.failed, report.ok) == (300 - len(failed), len(failed), not failed)
        if not failed:
            assert tree(out) == wanted | {path[1:]: PAGE for path in gone}, "as docs/urls.md says"
            return
        assert tree(out) == {path[1:]: path.encode() for path in paths[:100]}
        kind, cause = ("forbidden", "403") if fault == "403" else ("unexpected-type", "text/html")
        assert all(failure.kind == kind and cause in failure.reason for failure in run.failures)
        server.answers |= {path: Answer(path.encode(), headers=image) for path in gone}
        server.requests.clear()
        report = package.copy(source, out, resume="failed", on_error="record")
    assert (report.written, report.failed) == (200, 0)
    assert sorted(server.paths) == gone, "nothing else is fetched again"
    assert tree(out) == wanted


IN_A_NETWORK_OF_ITS_OWN = """
import json, subprocess, sys
sys.path.insert(0, sys.argv[1])
for command in ("link set lo up", "addr add 203.0.113.7/32 dev lo", "addr add 203.0.113.8/32 dev lo"):
    subprocess.run(["ip", *command.split()], check=True)
import shoal
from servers.url_server import Answer, UrlServer

def to(server, path):
    return Answer(status=302, headers={"Location": server.url + path})

with UrlServer("203.0.113.7") as public, UrlServer("203.0.113.8") as other, UrlServer() as private:
    public.answers["/private"] = to(private, "/secret")
    public.answers["/public"], public.answers["/twice"] = to(other, "/fine"), to(other, "/on")
    other.answers["/on"] = to(private, "/secret")
    private.answers["/own"] = to(private, "/own-2")
    lines = [public.url + path for path in ("/private", "/public", "/twice", "/plain")] + [private.url + "/own"]
    for out, allowed in (("refused", ()), ("allowed", (private.authority,))):
        private.requests.clear()
        report = shoal.copy(shoal.urls(lines, allow_host=allowed), sys.argv[2] + "/" + out, on_error="record")
        failed = {failure.name: failure.reason for failure in report.failures}
        print(json.dumps([report.written, failed, private.paths]))
"""


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"), reason="needs root and ip, for addresses of its own")
def test_a_public_host_does_not_lead_to_a_private_one_unless_it_is_allowed(tmp_path: Path) -> None:
    script = [sys.executable, "-c", IN_A_NETWORK_OF_ITS_OWN, str(TESTS), str(tmp_path)]
    done = subprocess.run(["unshare", "--net", *script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    refused, allowed = map(json.loads, done.stdout.splitlines())
    assert refused[0] == 3
    assert refused[1].keys() == {"private", "twice"}
    assert all("private" in reason for reason in refused[1].values()), refused
    assert refused[2] == ["/own", "/own-2"], "a private host gets only what the list names"
    assert allowed[:2] == [5, {}]
    assert tree(tmp_path / "allowed")["private"] == b"/secret"


RUN = """
import json, sys
import shoal
report = shoal.copy(shoal.urls(sys.argv[1]), sys.argv[2], on_error="record")
memory = open("/proc/self/status").read().split("VmHWM:")[1].split()[0]
print(json.dumps([report.written, report.failed, report.total.unfinished, int(memory)]))
"""


def test_ten_thousand_hosts_are_fetched_from_in_flat_memory(tmp_path: Path) -> None:
    def hosts(count: int) -> list[str]:
        return [f"127.{1 + at // 250 // 250}.{at // 250 % 250}.{1 + at % 250}" for at in range(count)]

    def run(count: int) -> list[Any]:
        lines = [
            f"http://{host}:{service.port}/get/object-{at:09}\n"
            for at, host in enumerate(hosts(count) * (20_000 // count))
        ]
        (tmp_path / f"{count}.txt").write_text("".join(lines))
        arguments = [str(tmp_path / f"{count}.txt"), str(tmp_path / f"out-{count}")]
        done = subprocess.run([sys.executable, "-c", RUN, *arguments], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        found: list[Any] = json.loads(done.stdout)
        return found

    with package.serve(synthetic="20000:100", host="0.0.0.0") as service:
        few, many = run(1_000), run(10_000)
    assert few[:3] == many[:3] == [20_000, 0, 0]
    assert len(list((tmp_path / "out-10000" / "get").iterdir())) == 20_000
    assert many[3] < few[3] * 1.2, (few, many)
