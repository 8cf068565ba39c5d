"""The function `generate`: a function's results for many ids, made and written by processes of their own.

Here: what a user sees. `checks.py`: what can be sent to a process, the identity of a job, names. `supervisor.py`: the
caller's side of the processes. `worker.py`: theirs. Not here: the run and its journal, writing (the binding).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from shoal import _shoal
from shoal._api import destination_text
from shoal._options import (
    MEMORY,
    WORKERS,
    Durability,
    EncodeOptions,
    OnError,
    Overwrite,
    Path,
    ProgressOption,
    Resume,
    Size,
    Workers,
    engine_options,
    one_of,
)
from shoal._progress import count_text
from shoal._watch import Watch

if TYPE_CHECKING:
    from shoal._report import Report

# Options of a run that mean nothing here: there is no network, data has no time, and names are the caller's.
# The engine's defaults.
UNUSED = (
    "dry_run",
    "layout",
    "keep_times",
    "max_retries",
    "retry_timeout",
    "timeout",
    "connect_timeout",
    "include",
    "exclude",
    "limit_rate",
    "ignore_vanished",
)


def generate(
    function: Callable[[Any], object],
    ids: Sequence[int] | Sequence[str],
    destination: Path,
    *,
    name: str,
    header: bool = True,
    final_newline: bool = True,
    overwrite: Overwrite = "never",
    durability: Durability = "batch",
    journal: Path | None = None,
    resume: Resume = "auto",
    on_error: OnError = "raise",
    max_failures: int | None = None,
    workers: Workers = WORKERS,
    memory: Size = MEMORY,
    progress: ProgressOption = None,
) -> Report:
    """Calls `function(id)` for every id, in a process for each core, and saves what it returns: one file for each id.

    The processes write their own files, while the next data is being made, so that no content crosses from one to
    another. What is committed is kept in a journal inside the destination: the same call again makes what is left, also
    after a crash or Ctrl-C.

    **The function** returns the data of one object, as `shoal.save` takes it: `bytes`, `str`, anything with a buffer,
    or a table or array, which is written in the format that the name's ending says. It is sent to the processes by
    name, so it must be defined at the top level of a module or script; further arguments go in with
    `functools.partial`. A script must make the call under `if __name__ == "__main__":`, because each process imports
    it.

    **What goes wrong.** Where the function raises, the id is a failure, with the traceback as its reason. A process
    that is killed, by the system for want of memory or by a crash of native code, is replaced, and what it was at is
    made again; an id over which two have died is a failure too. The journal goes by the function's name and by what it
    is bound to (arguments of `functools.partial`, an instance), not by what it does: after a change of it, call with
    `resume="restart"`.

    Args:
        function: Takes an id and returns the data of its object.
        ids: A range, or any sequence of whole numbers or texts.
        destination: A directory (made if it is not there).
        name: The name of an id's object: a template for `str.format`, such as `"part-{:05d}.csv"` or `"{}/data.json"`.
            Each id needs a name of its own: of two with one name the second is a failure, and where a call was killed
            over it, it replaces the first.
        header: A `.csv` file of a table begins with the names of its columns. (An array's columns have none.)
        final_newline: A `.csv` or `.jsonl` file ends with a line end. (An empty last line, a null, always does.)
        overwrite: What happens to a file that this job did not write: `"never"` keeps it and counts a failure,
            `"always"` replaces it.
        durability: When an object counts as done: `"batch"` after one barrier for many objects, `"file"` after a sync
            of each file, `"none"` as soon as it is in the page cache.
        journal: Where the journal lives, instead of inside the destination.
        resume: `"auto"` makes what is left; when that is nothing but failures, tries those again. `"failed"` tries only
            the failures again. `"restart"` makes everything anew, also with other options.
        on_error: What failed objects mean. `"raise"` does all the rest first, then raises `ObjectsFailedError`;
            `"record"` returns the report, which says so; `"stop"` ends at the first and raises its exception. All
            write what failed to the journal.
        max_failures: Stop the run when more objects than this have failed.
        workers: How many processes; `"auto"` is one for each core.
        memory: Most bytes of finished data that wait to be written, over all processes: a number, or text such as
            `"256MiB"`.
        progress: True draws a line on standard error; a function is called with a `shoal.Progress` about ten times a
            second. An exception that it raises stops the run and is passed on.

    Returns:
        The report: `report.ok` says whether everything arrived.

    Raises:
        ConfigError: An argument is wrong, such as a function that cannot be sent to a process.
        ObjectsFailedError: Objects failed, in this call or an earlier one; all the rest is done (`on_error="raise"`).
        ObjectError: The first object that failed (`on_error="stop"`).
        RunError: The run cannot go on (destination full, no process could be started); the same call resumes it.
        KeyboardInterrupt: Ctrl-C. The journal is intact and the same call goes on.

        Those that end a run already begun carry what it had done as `.report`.

    Example:
        >>> report = shoal.generate(str, range(2000), "data/", name="{:04}.txt")  # str stands for your function
        >>> report.written, report.ok
        (2000, True)
    """
    defaults = _shoal.default_options()
    options = engine_options(
        workers=workers,
        memory=memory,
        durability=durability,
        overwrite=overwrite,
        journal=journal,
        max_failures=max_failures,
        on_error=on_error,
        resume=one_of(resume, ("auto", "failed", "restart"), "resume"),
        **{unused: defaults[unused] for unused in UNUSED},
    )
    target = destination_text(destination)

    # Only now: multiprocessing takes a while to import, and `import shoal` must not.
    from shoal._generate.checks import Job
    from shoal._generate.supervisor import run

    job = Job(function, ids, name)
    encode = EncodeOptions(header=bool(header), final_newline=bool(final_newline))
    with Watch(progress, lambda: f"generating {count_text(len(job.ids))} into {target}") as watch:
        return watch.ended(run(job, target, options, encode, watch.progress))
