"""Kinds of jobs to interrupt, with one oracle: a copy, an update, URLs, an index, a bucket, a part, an exact copy.

A job knows what must be at the destination in the end, and which of it the run under test has to write. A new kind is a
function that sets it up; it then meets every fault that is parametrised by `KINDS`. Not here: jobs into `parquet:`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import shoal as package
from conftest import Command, Service
from faults import exact
from faults.runs import make_source
from index_servers import Site
from servers.s3_store import S3Store
from trees import tree_of_raw_names

Words = list[str | Path]
SMALL, LARGE = 600, 6  # 2.4 MB


class Job:
    """A copy of a service's objects into a directory; the other kinds differ in what came before, or in the source."""

    def __init__(
        self,
        shoal: Command,
        service: Service,
        tmp_path: Path,
        out: Path,
        kind: str,
        *,
        small: int = 600,
        large: int = 6,
    ) -> None:
        """Makes the source, and runs what has to come before the run under test."""
        self.shoal, self.out, self.source = shoal, out, tmp_path / "source"
        self.private = out / ".shoal"
        self.wanted = make_source(self.source, SMALL, LARGE)
        self.before: dict[bytes, bytes] = {}  # what finished runs have left there
        self.is_part, self.is_update, self.is_exact = kind == "part", kind == "update", kind == "exact"
        self.command = SETUPS[kind](self, service, tmp_path)
        # The names that the run under test has to write.
        self.own = {name for name, data in self.wanted.items() if self.before.get(name) != data}

    @property
    def journal(self) -> Path:
        """The journal of the run under test."""
        return self.private / "journal.db"

    def slowly(self, seconds: float = 1.6) -> Words:
        """The command, with a limit so that it takes this long: several batches."""
        size = sum(len(self.wanted[name]) for name in self.own)
        return [*self.command, "--limit-rate", f"{size / seconds / 1000:.0f}kB"]

    def copied(self, *command: str | Path) -> None:
        """Runs a command that comes before."""
        done = self.shoal.run(*command)
        assert done.returncode == 0, done.stderr
        self.before = tree_of_raw_names(self.out)

    def run(self) -> package.RunStatus | None:
        """What the journal says of the run under test; nothing if it has not begun, or an update has not."""
        if not self.journal.exists():
            return None
        try:
            status = package.status(self.out)
        except package.RunError:
            # Killed or cut off while its tables were made: a reader cannot roll that back, and calls it read-only.
            assert self.journal.with_name("journal.db-journal").exists()
            return None
        runs = [part.run for part in status.parts if part.index == 1] if self.is_part else status.runs[-1:]
        found = runs[0] if runs else None
        return None if found and self.is_update and found.completed else found

    def done(self) -> int:
        """How many objects the journal says the run under test has written."""
        run = self.run()
        return run.total.written if run else 0

    def found(self) -> tuple[dict[bytes, bytes], int]:
        """What is at the destination, and how many objects of it the run under test has finished."""
        found = tree_of_raw_names(self.out) if self.out.exists() else {}
        return found, sum(found.get(name) == self.wanted[name] for name in self.own)

    def assert_nothing_is_claimed_or_lost(self) -> int:
        """Fails if the journal counts more than is whole, or if what was there before is not; returns its count."""
        found, whole = self.found()
        done = self.done()
        assert done <= whole, f"the journal says {done:,} are done, {whole:,} are whole"
        for name, data in self.before.items():
            assert found.get(name) in (data, self.wanted[name]), f"{name!r} is neither as it was nor as it will be"
        assert found.keys() <= self.wanted.keys()
        return done

    def assert_resumes(self) -> None:
        """Runs the command again; fails unless it completes the job and writes what the journal does not have, no more.

        An update that has begun is continued by the plain command: the other one would compare everything again. What
        it finds to be equal, it does not write.
        """
        missing, command = len(self.own) - self.done(), self.command
        least = len(self.own) - self.found()[1] if self.is_update else missing
        if self.is_update and self.run():
            command = [word for word in command if word != "--update"]
        again = self.shoal.run(*command, "--json")
        assert again.returncode == 0, again.stderr
        report = self.shoal.last_json(again)
        assert least <= report["written"] <= missing, "what is committed is not fetched again, and nothing is left out"
        assert report["total"]["written"] + report["total"]["skipped"] == report["total"]["listed"]
        self.assert_complete()

    def assert_complete(self) -> None:
        """Fails unless every byte is there, the journal says so, and no temporary file is left."""
        assert tree_of_raw_names(self.out) == self.wanted
        status = package.status(self.out)
        assert all(run.completed and run.total.unfinished == run.total.failed == 0 for run in status.runs)
        assert status.complete or not self.is_part
        assert list(self.private.rglob("tmp/*")) == []
        if self.is_exact:
            exact.assert_equal(self.source, self.out)
        if self.is_update or self.is_exact:
            report = package.copy(self.source, self.out, resume="update", exact=self.is_exact)
            # A file stamped in the moment in which a session began may be of the one before, and is written once more
            # if a failed sync or a power cut ended that one.
            assert report.written < 10, report
            assert report.written + report.unchanged == len(self.wanted), report
            assert tree_of_raw_names(self.out) == self.wanted
        if self.is_exact:
            exact.assert_equal(self.source, self.out)


def a_copy(job: Job, service: Service, _: Path) -> Words:
    return ["copy", service(job.source, page_size=60).url, job.out]


def an_update(job: Job, _: Service, __: Path) -> Words:
    """Of a directory in which three files of four have changed; one in ten is new."""
    names = sorted(job.wanted)
    for name in names[::10]:
        (job.source / name.decode()).unlink()
    job.copied("copy", job.source, job.out)
    time.sleep(0.05)  # the clock that stamps files moves in steps
    for number, name in enumerate(names):
        if number % 10 == 0 or number % 4:
            job.wanted[name] = job.wanted[name][::-1]
            (job.source / name.decode()).write_bytes(job.wanted[name])
    return ["copy", job.source, job.out, "--update"]


def a_list_of_urls(job: Job, service: Service, tmp_path: Path) -> Words:
    url = service(job.source).url
    names = [name.decode() for name in sorted(job.wanted)]
    (tmp_path / "list").write_text("".join(f"{name}\t{url}/get/{name}\n" for name in names))
    return ["copy", "--urls", tmp_path / "list", job.out]


def an_index(job: Job, service: Service, _: Path) -> Words:
    """Of a web server that lists its directories."""
    site = Site(job.source)
    service.running.append(site)  # type: ignore[arg-type]  # which stops it
    return ["copy", site.url, job.out, "--index"]


def a_bucket(job: Job, service: Service, _: Path) -> Words:
    """Of a public bucket."""
    store = S3Store({name.decode(): data for name, data in job.wanted.items()}, page_size=60, public=True)
    service.running.append(store.start())  # type: ignore[arg-type]  # which stops it
    return ["copy", f"s3://{store.bucket}", job.out, "--endpoint", store.url, "--anonymous"]


def a_part(job: Job, service: Service, _: Path) -> Words:
    """The second of two, behind the first one."""
    command: Words = ["copy", service(job.source, page_size=60).url, job.out, "--part"]
    job.copied(*command, "0/2")
    job.private = job.out / ".shoal" / "parts" / "1"
    return [*command, "1/2"]


def an_exact_copy(job: Job, _: Service, __: Path) -> Words:
    """Of a directory with links, hard links, attributes and holes, too."""
    exact.add_every_kind(job.source)
    job.wanted = tree_of_raw_names(job.source)
    return ["copy", job.source, job.out, "--exact"]


SETUPS: dict[str, Callable[[Job, Service, Path], Words]] = {
    "copy": a_copy,
    "update": an_update,
    "urls": a_list_of_urls,
    "index": an_index,
    "bucket": a_bucket,
    "part": a_part,
    "exact": an_exact_copy,
}
# Beside a copy, for which tests with moments of their own have more of them.
KINDS = ("update", "urls", "index", "bucket", "part", "exact")
