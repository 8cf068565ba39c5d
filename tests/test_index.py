"""`--index`: a directory of a web server is copied whole, or what is missing is a failure."""

from __future__ import annotations

import contextlib
import itertools
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import shoal as package
from index_servers import Site, files, nginx, python, site
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from conftest import Command

    Server = Callable[[Path, Path], AbstractContextManager[str]]

__all__ = ["site"]

ODD = [
    "a b.txt",
    "q?x#y.txt",
    "per%cent%20.txt",
    "a&amp;b<c>.txt",
    "plus+.txt",
    "üñ/日本.txt",
    "quote'\".txt",
    "a:b.txt",
    "sub dir;x=1/q?dir/in.txt",
    "~tilde.txt",
    "index.htm/x",
    "long" + "x" * 150 + ".txt",
    "page.html",
    "C=N;O=D",
]
LOGIN = "<html><title>Sign in</title><form><a href='reset'>Forgot?</a><input type=password></form></html>"


def copied(site: Site | str, to: Path, **options: Any) -> package.Report:
    url = site if isinstance(site, str) else site.url
    return package.copy(package.list_get(url, index=True), to, **{"on_error": "record", **options})


def failures(report: package.Report) -> dict[str, str]:
    return {failure.name: failure.reason for failure in report.failures}


def test_odd_names_arrive_from_pythons_server(site: Site, tmp_path: Path) -> None:
    site.write(*ODD)
    report = copied(site, tmp_path / "out")
    assert (report.ok, report.written) == (True, len(ODD))
    assert files(tmp_path / "out") == files(site.directory)


def test_odd_names_arrive_from_nginx(tmp_path: Path) -> None:
    for name in ODD:
        path = tmp_path / "root/pub dir" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / "root/above").write_text("not copied")
    with nginx(tmp_path / "root", tmp_path / "nginx") as url:
        report = copied(f"{url}pub%20dir/", tmp_path / "out")
    assert (report.ok, report.written) == (True, len(ODD))
    assert files(tmp_path / "out") == files(tmp_path / "root/pub dir")


def test_the_command_copies_below_the_url_with_and_without_its_slash(site: Site, shoal: Command) -> None:
    site.write("pub/a/1", "pub/2", "other/3")
    for url in ("pub", "pub/"):
        done = shoal.run("copy", site.url + url, f"out-{url.strip('/')}-{len(url)}", "--index")
        assert (done.returncode, done.stderr.count("error")) == (0, 0), done.stderr
        found = files(shoal.directory / f"out-{url.strip('/')}-{len(url)}")
        assert sorted(found) == ["2", "a/1"]


def test_other_links_are_not_followed_and_are_counted(site: Site, tmp_path: Path) -> None:
    site.write("pub/kept", "pub/deep/er", "above", "pubs")
    links = ["kept", "./kept", "/pub/kept", site.url + "pub/kept", "deep/er", "?C=N;O=D", "kept?v=1", "#top", ""]
    elsewhere = ["../above", "/pubs", "//example.org/pub/x", "https://127.0.0.1/pub/y", "mailto:x@y", "../"]
    anchors = "".join(f"<A HREF = '{href}'>x</A>" for href in links + elsewhere)
    site.page("/pub/", f"<title>Index of /pub</title>{anchors}")
    report = copied(site.url + "pub/", tmp_path / "out")
    assert (report.ok, sorted(files(tmp_path / "out"))) == (True, ["deep/er", "kept"])
    assert any("2 links with a query" in note and "5 links to other hosts" in note for note in report.notes), (
        report.notes
    )


def test_links_are_relative_to_the_base_of_the_page(site: Site, tmp_path: Path) -> None:
    site.write("pub/a/x")
    site.page("/pub/", "<base href='/pub/a/'><h1>Index of /pub</h1><a href=x>x</a>")
    assert copied(site.url + "pub/", tmp_path / "out").ok
    assert list(files(tmp_path / "out")) == ["a/x"]


def test_a_link_that_has_no_name_is_a_failure(site: Site, tmp_path: Path) -> None:
    site.write("good")
    bad = ["a%2Fb", "100%.txt", "x/%2e%2e/y", "nul%00"]
    site.page("/", "<title>Index of /</title><a href=good>good</a>" + "".join(f"<a href='{b}'>{b}</a>" for b in bad))
    report = copied(site, tmp_path / "out")
    assert (report.ok, report.failed, report.written) == (False, len(bad), 1)
    assert set(failures(report)) == set(bad)


def test_a_file_that_links_without_a_slash_to_a_directory_is_a_failure(site: Site, tmp_path: Path) -> None:
    site.write("dir/x", "y")
    site.page("/", "<title>Index of /</title><a href=dir>dir</a><a href=y>y</a>")
    report = copied(site, tmp_path / "out")
    assert "its link has no slash" in failures(report)["dir"]
    assert list(files(tmp_path / "out")) == ["y"]


def test_a_link_without_a_slash_that_shows_an_index_at_once_is_a_failure(site: Site, tmp_path: Path) -> None:
    site.write("y")
    site.page("/", "<title>Index of /</title><a href=dir>dir</a><a href=y>y</a><a href=about.html>about.html</a>")
    site.page("/dir", "<title>Index of /dir</title><a href=/dir/x>x</a>")
    site.page("/about.html", "<p>About</p>")
    report = copied(site, tmp_path / "out")
    assert (report.ok, report.failures[0].kind) == (False, "unexpected-type")
    assert "its link has no slash" in failures(report)["dir"]
    assert sorted(files(tmp_path / "out")) == ["about.html", "y"]
    source = package.list_get(site.url, index=True, expect_type="*")
    assert package.copy(source, tmp_path / "all").written == 3


def test_objects_behind_queries_are_a_failure_of_their_page(site: Site, tmp_path: Path) -> None:
    site.write("a/kept", "a/f1", "b")
    hrefs = ["?C=N;O=D", "kept", "f1?download=1", "?page=2", "kept?v=1"]
    site.page("/a/", "<title>Index of /a</title>" + "".join(f"<a href='{href}'>x</a>" for href in hrefs))
    report = copied(site, tmp_path / "out")
    reason = "this link was not followed: it has a query, and so have 1 more on its page"
    assert failures(report) == {"a/f1?download=1": reason}
    assert sorted(files(tmp_path / "out")) == ["a/kept", "b"]
    assert any("2 links with a query" in note for note in report.notes), report.notes


def test_a_start_page_whose_links_all_lead_elsewhere_ends_the_run(site: Site, tmp_path: Path) -> None:
    site.page("/", "<title>Index of /</title><a href=http://data.example.org/a>a</a>")
    with pytest.raises(package.ShoalError, match="1 link leads to other places"):
        copied(site, tmp_path / "out")


def test_a_directory_that_redirects_to_another_is_listed_under_its_own_name(site: Site, tmp_path: Path) -> None:
    site.write("v3/x", "latest/gone")
    site.page("/latest/", "", 302, Location="/v3/")
    assert copied(site, tmp_path / "out").ok
    assert list(files(tmp_path / "out")) == ["v3/x"]


@pytest.mark.parametrize(
    ("page", "why"),
    [
        pytest.param((LOGIN, 200), "not the index", id="login"),
        pytest.param(("<h1>Oops</h1><a href=/>home</a>", 200), "not the index", id="soft-404"),
        pytest.param(("<title>My pages</title><a href=x.html>About me</a>", 200), "not the index", id="own-page"),
        pytest.param(("", 200), "not the index", id="empty-answer"),
        pytest.param(("<title>Index of /b</title><script src=/l.js></script>", 200), "not the index", id="script"),
        pytest.param(("<html><h1>Index of /b</h1><p>Error: no</p></html>", 200), "not the index", id="error-below"),
        pytest.param(("<html><h1>Index of /b</h1><a href=../>up</a>", 200), "may be cut off", id="cut-off"),
        pytest.param(("", 404), "answered 404", id="404"),
        pytest.param(("", 403), "answered 403", id="403"),
        pytest.param(("", 401), "answered 401", id="401"),
        pytest.param(("", 500), "answered 500", id="500"),
        pytest.param(("", 302, {"Location": "/login?next=x"}), 'redirects it to "/login"', id="redirect"),
        pytest.param(("<title>Index of", 200, {"Content_Type": "text/plain"}), "not the index", id="no-html"),
    ],
)
def test_a_directory_without_an_index_is_a_failure_until_the_same_command_can_list_it(
    site: Site, tmp_path: Path, page: tuple[Any, ...], why: str
) -> None:
    site.write("a/1", "b/2", "b/c/3", "d/4")
    site.page("/login?next=x", "<title>Index of users</title>")
    site.page("/b/", page[0], page[1], **(page[2] if len(page) > 2 else {}))
    for _ in range(2):
        report = copied(site, tmp_path / "out")
        assert (report.complete, report.ok, report.failed) == (True, False, 1)
        ((name, reason),) = failures(report).items()
        assert (name, why in reason) == ("b", True), reason
        assert report.failures[0].kind == "unlisted"
        assert sorted(files(tmp_path / "out")) == ["a/1", "d/4"]
    site.pages.clear()
    site.requests.clear()
    report = copied(site, tmp_path / "out")
    assert (report.ok, report.failed, report.total.written) == (True, 0, 4)
    assert files(tmp_path / "out") == files(site.directory)
    assert site.requests["/a/1"] + site.requests["/d/4"] == 0, "what was copied was copied again"


def test_a_directory_that_fails_once_is_listed_all_the_same(site: Site, tmp_path: Path) -> None:
    site.write("a/1", "b/2")
    site.failures = {"/a/": [500, -500], "/b/": [500, 500, 500, -500]}
    report = copied(site, tmp_path / "out")
    assert (report.ok, sorted(files(tmp_path / "out"))) == (True, ["a/1", "b/2"])


def test_a_page_that_is_cut_off_is_a_failure(site: Site, tmp_path: Path) -> None:
    site.write("a/1", "b/2")
    whole = "<html><title>Index of /a</title><a href=1>1</a>"
    site.page("/a/", whole, Content_Length="", Connection="close")
    assert "may be cut off" in failures(copied(site, tmp_path / "out"))["a"]
    site.page("/a/", whole, Content_Length=str(len(whole) + 9), Connection="close")
    assert "a" in failures(copied(site, tmp_path / "out"))
    site.page("/a/", whole + "</html>", Content_Length="", Connection="close")
    assert copied(site, tmp_path / "out").ok


def test_an_exclude_admits_that_a_directory_cannot_be_listed(site: Site, tmp_path: Path) -> None:
    site.write("a/1", "private/2")
    site.failures = {"/private/": [403]}
    assert copied(site, tmp_path / "out", exclude="private/**").ok


@pytest.mark.parametrize("status", [404, 403, 500])
def test_without_its_start_page_the_run_fails(site: Site, tmp_path: Path, status: int) -> None:
    site.failures = {"/": [status]}
    with pytest.raises(package.ShoalError, match=str(status)):
        package.copy(package.list_get(site.url, index=True, retry_timeout=0.5), tmp_path / "out", on_error="record")


def test_a_start_page_that_is_no_index_ends_the_run(site: Site, tmp_path: Path) -> None:
    site.page("/", LOGIN)
    with pytest.raises(package.ShoalError, match="not the index"):
        copied(site, tmp_path / "out")


def test_an_empty_directory_is_no_failure(site: Site, tmp_path: Path) -> None:
    site.write("a/1")
    (site.directory / "empty").mkdir()
    assert copied(site, tmp_path / "out").ok


def test_links_in_a_circle_end(site: Site, tmp_path: Path) -> None:
    site.write("a/1")
    (site.directory / "a/loop").symlink_to(".")
    report = copied(site, tmp_path / "out")
    assert report.written == 2
    assert "link in a circle" in failures(report)["a/loop/loop"]


def test_a_server_that_shows_the_same_index_for_every_directory_is_left_at_once(site: Site, tmp_path: Path) -> None:
    site.write("1")
    for n in range(4):
        (site.directory / f"link{n}").symlink_to(".")
    report = copied(site, tmp_path / "out")
    assert (report.written, report.failed) == (1 + 4, 4 * 4)


def test_directories_that_only_have_directories_of_the_same_names_are_no_circle(site: Site, tmp_path: Path) -> None:
    names = ["/".join(parts) for parts in itertools.product("01", repeat=5)]
    site.write(*names)
    report = copied(site, tmp_path / "out")
    assert (report.ok, report.written) == (True, 32)


def test_a_tree_without_end_is_left_at_a_depth_of_fifty(site: Site, tmp_path: Path) -> None:
    site.write("d/x")
    for depth in range(60):
        site.page("/" + "d/" * depth, "<title>Index of</title><a href=d/>d</a>")
    ((name, reason),) = failures(copied(site, tmp_path / "out", allow_empty=True)).items()
    assert (name, "more than 50 directories deep" in reason) == ("/".join("d" * 51), True)


def test_a_changed_tree_is_compared_and_copied_anew(site: Site, tmp_path: Path) -> None:
    names = [f"{n % 20}/{n}" for n in range(400)]
    site.write(*names)
    assert copied(site, tmp_path / "out").written == 400
    (site.directory / "3/3").unlink()
    site.write("5/new", "new/x")
    (site.directory / "7/7").write_text("changed")
    report = copied(site, tmp_path / "out", resume="update", overwrite="always")
    assert (report.ok, report.written, report.unchanged) == (True, 3, 398)
    expected = files(site.directory) | {"3/3": b"3/3"}  # what is gone is not deleted
    assert files(tmp_path / "out") == expected


def test_killed_and_resumed_nothing_is_lost_although_the_tree_has_changed(
    site: Site, tmp_path: Path, shoal: Command
) -> None:
    site.write(*[f"{n % 30}/{n}" for n in range(1500)])
    site.failures = {"/4/": [403], "/9/": [500]}
    command = ("copy", site.url, "out", "--index", "--limit-rate", "4k", "--workers", "2")

    def wait_for(requests: int) -> None:
        wait_until(lambda: sum(site.requests.values()) > requests)

    for step in range(3):
        before = sum(site.requests.values())
        running = shoal.start(*command)
        wait_for(before + 80 + 30)
        running.send_signal(signal.SIGKILL)
        running.wait()
        if step == 0:
            (site.directory / "0/0").unlink()
            site.write("0/added", "between/x")
        if step == 1:
            site.failures = {"/11/": [500]}
    report = copied(site, tmp_path / "out")
    assert set(failures(report)) == {"11"}
    site.failures = {}
    report = copied(site, tmp_path / "out")
    assert report.ok
    missing = files(site.directory).items() - files(tmp_path / "out").items()
    assert not missing


def test_options_of_services_are_refused_together_with_index(site: Site) -> None:
    with pytest.raises(package.ConfigError, match="index"):
        package.copy(package.list_get(site.url, index=True, list_path="/x"), "null:")


def test_a_page_of_links_is_answered_with_the_option(site: Site, shoal: Command) -> None:
    site.write("list")
    site.page("/list", "<html><title>Index of /</title><a href=x>x</a>")
    done = shoal.run("copy", site.url, "out")
    assert (done.returncode, "--index" in done.stderr) == (3, True), done.stderr


@pytest.mark.slow
def test_a_directory_that_failed_before_a_kill_does_not_cost_what_was_committed(
    site: Site, tmp_path: Path, shoal: Command
) -> None:
    site.write(*[f"{folder:02}/{number}" for folder in range(50) for number in range(250)])
    site.failures = {"/03/": [500]}

    def written() -> int:
        with contextlib.suppress(package.ShoalError):  # the journal is not there yet
            return sum(run.total.written for run in package.status(tmp_path / "out").runs)
        return 0

    running = shoal.start("copy", site.url, "out", "--index", "--limit-rate", "8k")
    wait_until(lambda: written() >= 11_000 or running.poll() is not None, 100)
    assert running.poll() is None, "it was over before it could be killed"
    running.kill()
    running.wait()
    site.failures = {}
    report = copied(site, tmp_path / "out")
    assert (report.ok, report.total.written, report.written < 2_000) == (True, 12_500, True), report
    assert files(tmp_path / "out") == files(site.directory)


@pytest.mark.slow(minutes=6)
@pytest.mark.parametrize("server", [nginx, python])
def test_a_hundred_thousand_files_survive_three_kills(server: Server, tmp_path: Path, shoal: Command) -> None:
    for folder in range(1000):
        place = tmp_path / "site" / f"{folder % 10}" / f"{folder}"
        place.mkdir(parents=True)
        for number in range(100):
            (place / f"{number}.bin").write_bytes(b"%d %d" % (folder, number))
    with server(tmp_path / "site", tmp_path / "server") as url:

        def kill_behind(directories: int) -> None:
            running = shoal.start("copy", url, "out", "--index", "--limit-rate", "60k")
            made = tmp_path / "out"
            wait_until(lambda: len([*made.glob("*/*")]) > directories or running.poll() is not None, 200)
            assert running.poll() is None, "it was over before it could be killed"
            running.kill()
            running.wait()

        for kill in range(3):
            kill_behind(100 + 200 * kill)
        report = copied(url, tmp_path / "out")
    assert (report.ok, report.total.written) == (True, 100_000)
    assert report.written < 90_000, "what was committed was copied again"
    assert files(tmp_path / "out") == files(tmp_path / "site")
