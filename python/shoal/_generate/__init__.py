"""The function `generate`: calls a function for many ids in worker processes, which write the results.

Here: the public function. `checks.py`: validation, the identity of a call, names. `supervisor.py`: the caller's side of
the processes. `worker.py`: the worker's side. Not here: the run, its journal and writing (the binding).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from shoal._api import on_clusters
from shoal._destinations import destination_form
from shoal._options import (
    MEMORY,
    WORKERS,
    Durability,
    OnError,
    Overwrite,
    Part,
    Path,
    ProgressOption,
    Resume,
    Size,
    Workers,
    given,
    one_of,
    points_to_options,
)
from shoal._progress import count_text
from shoal._watch import Watch

if TYPE_CHECKING:
    from shoal._destinations import Cluster
    from shoal._report import Report


@points_to_options()
@on_clusters
def generate(
    function: Callable[[Any], object],
    ids: Sequence[int] | Sequence[str],
    destination: Path,
    *,
    name: str,
    # scripts/signatures.py writes these lines.
    header: bool = True,
    final_newline: bool = True,
    overwrite: Overwrite = "never",
    durability: Durability = "batch",
    journal: Path | None = None,
    resume: Resume = "auto",
    part: Part | None = None,
    max_failures: int | None = None,
    keep_going: bool | None = None,
    workers: Workers = WORKERS,
    nice: bool = False,
    memory: Size = MEMORY,
    on_error: OnError = "raise",
    # End.
    cluster: str | Cluster | None = None,  # `on_clusters` runs it
    progress: ProgressOption = None,
) -> Report:
    """Calls `function(id)` for every id in worker processes and saves each result as a file.

    There is one process per core. Each writes its own files while it computes the next results, so no contents are
    copied between processes. A journal in the destination records what is committed: the same call again continues
    with the rest, also after a crash or Ctrl-C.

    **The function** returns the data of one object, as `shoal.save` takes it: `bytes`, `str`, anything with a buffer,
    or a table or array, which is written in the format of the name's suffix. It is pickled by name, so define it at
    the top level of a module or script. Pass further arguments with `functools.partial`. A script must make the call
    under `if __name__ == "__main__":`, because each process imports the script.

    **Failures.** If the function raises, the id is a failure with the traceback as its reason. If a process dies (out
    of memory, a crash in native code), it is replaced, and its unfinished ids run again. An id that was running when
    two processes died is a failure.

    **A changed function.** The journal identifies the function by its name and by what it is bound to, not by its code.
    That is the pickled content of the arguments of `functools.partial` and of an instance, and the name of a class.
    Content that is pickled differently each time is rejected. After you change the code, pass `resume="restart"`.

    Args:
        function: Takes an id and returns the data of its object.
        ids: A range, or any sequence of whole numbers or texts.
        destination: A directory, created if it does not exist.
        name: Template for the name of an id's object, for `str.format`, such as `"part-{:05d}.csv"` or
            `"{}/data.json"`. Each id needs its own name. If two ids have the same name, the second is a failure; if a
            call was killed while it wrote the second, that replaces the first.
        header: Begin a `.csv` file of a table with the names of its columns. (An array's columns have no names.)
        final_newline: End a `.csv` or `.jsonl` file with a newline. (A last line that is empty, a null, always has
            one.)
        overwrite: What to do with an existing file that shoal did not write: `"never"` keeps it and records a failure,
            `"always"` replaces it.
        durability: When an object is committed: `"batch"` after one sync for many objects, `"file"` after a sync of
            each file, `"none"` as soon as it is in the page cache.
        journal: Path of the journal, if it is not to be inside the destination. `"null:"` has a journal only with this.
        resume: `"auto"` continues with the rest, or retries the failures if nothing else is left. `"failed"` retries
            only the failures. `"restart"` runs all ids again, also with other options.
        part: `(index, count)`: do only this part of the job, such as `(3, 16)`, so that several processes or machines
            share it. Parts count from 0. Each has a journal of its own in the destination; `docs/clusters.md` has the
            rules.
        max_failures: Stop the run when more objects than this have failed. By default it stops only if 100 objects from
            a network or of a program have failed in the same way and nothing has succeeded, in a list of many hosts on
            ten of them.
        keep_going: Do not stop if the first 100 objects fail in the same way. It is the default with
            `on_error="record"`.
        workers: How many processes; `"auto"` is one for each core.
        nice: Leave the machine to others: `"auto"` is one process for two cores, and all of them have the lowest I/O
            priority and a low priority.
        memory: Maximum bytes of data that wait to be written, over all processes: a number, or text such as `"256MiB"`.
        on_error: What to do about failed objects. `"raise"` finishes the rest, then raises `ObjectsFailedError`;
            `"record"` returns the report, which has the failures; `"stop"` ends at the first failure and raises its
            exception. All of them record failures in the journal.
        cluster: `"ray"` or `shoal.cluster(…)`: run all parts of the job on a Ray cluster (`docs/clusters.md`).
        progress: True draws a line on standard error. A function is called with a `shoal.Progress` about ten times a
            second; an exception that it raises stops the run and is raised here.

    Returns:
        The report: `report.ok` says whether everything arrived.

    Raises:
        ConfigError: An argument is wrong, such as a function that cannot be sent to a process.
        ObjectsFailedError: Objects failed, in this call or an earlier one, and the rest is done (`on_error="raise"`).
        ObjectError: The first object that failed (`on_error="stop"`).
        RunError: The run cannot continue (destination full, a process could not be started). The same call resumes it.
        KeyboardInterrupt: Ctrl-C. The journal is intact, and the same call resumes the run.

    Note:
        An exception that ends a started run has the report so far as `.report`.

    Example:
        >>> report = shoal.generate(str, range(2000), "data/", name="{:04}.txt")  # str takes the place of your function
        >>> report.written, report.ok
        (2000, True)
    """
    one_of(resume, ("auto", "failed", "restart"), "resume")
    options = given(locals())
    target = destination_form(destination)[0]

    # Imported here because multiprocessing is slow to import, and `import shoal` must be fast.
    from shoal._generate.checks import Job
    from shoal._generate.supervisor import run

    job = Job(function, ids, name)
    with Watch(progress, lambda: f"generating {count_text(len(job.ids))} into {target}") as watch:
        return watch.ended(run(job, target, options, watch.progress))
