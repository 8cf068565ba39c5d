"""Standard output that does not lose data without a word.

Here: the stream that takes the place of `sys.stdout`, and what it does where a write, a flush or the close fails. All
that is printed goes through it, also `--help`. Not here: what is printed, and how a failure is told (`_display.py`).
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
from typing import Any


class OutputError(Exception):
    """Standard output took no more, so that what a command printed is not whole."""


class Output(io.TextIOWrapper):
    """Standard output. The first write that fails raises `OutputError`, unless the reader went away (`| head`).

    Either way what follows goes nowhere, now and when the interpreter ends.
    """

    failure: OSError | None = None  # why something that was printed is lost
    _nowhere = False

    @classmethod
    def of(cls, stream: Any) -> Output:
        """Takes the place of a stream; None is what Python has where the descriptor was closed."""
        if stream is None:
            return cls(_Closed(), encoding="utf-8", errors="backslashreplace", write_through=True)  # type: ignore[arg-type]
        return cls(
            stream.buffer,
            encoding=stream.encoding,
            errors="backslashreplace",
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )

    def write(self, text: str) -> int:
        """Writes, if what was written before could be."""
        if not self._nowhere:
            try:
                return super().write(text)
            except OSError as error:
                self._lost(error)
        return len(text)

    def write_bytes(self, data: bytes) -> None:
        """Writes bytes as they are; for a command that prints nothing else, since text may still be buffered."""
        if not self._nowhere:
            try:
                while data:
                    taken: object = self.buffer.write(data)
                    if not isinstance(taken, int):  # None: unbuffered, by PYTHONUNBUFFERED, and told not to wait
                        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
                    data = data[taken:]
            except OSError as error:
                self._lost(error)

    def flush(self) -> None:
        """Writes out what is buffered."""
        if not self._nowhere:
            try:
                super().flush()
            except OSError as error:
                self._lost(error)

    def finish(self) -> None:
        """Writes out what is buffered, and closes a copy of the descriptor: NFS and quotas may refuse only then."""
        self.flush()
        if not self._nowhere and not isinstance(self.buffer, _Closed):
            try:
                os.close(os.dup(self.fileno()))
            except OSError as error:
                self._lost(error)

    def _lost(self, error: OSError) -> None:
        self._nowhere = True
        # What the buffer still holds would fail once more when the interpreter ends.
        with contextlib.suppress(OSError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
        if error.errno != errno.EPIPE:
            self.failure = error
            raise OutputError(str(error)) from error


class _Closed(io.RawIOBase):
    """What stands for a standard output that was closed before the program began."""

    def writable(self) -> bool:
        return True

    def write(self, _data: object) -> int:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
