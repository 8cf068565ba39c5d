"""Standard output that reports lost data.

Here: the stream that replaces `sys.stdout`, and what it does when a write, a flush or the close fails. All output goes
through it, also `--help`. Not here: what is printed, and the message about a failure (`_display.py`).
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
from typing import Any


class OutputError(Exception):
    """Writing to standard output failed, so the output of a command is incomplete."""


class Output(io.TextIOWrapper):
    """Standard output. The first failing write raises `OutputError`, unless the reader has closed the pipe (`| head`).

    Either way, later output is discarded, also when the interpreter ends.
    """

    failure: OSError | None = None  # why output was lost
    _nowhere = False

    @classmethod
    def of(cls, stream: Any) -> Output:
        """Replaces a stream; Python has None if the descriptor was closed."""
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
        """Writes, unless an earlier write has failed."""
        if not self._nowhere:
            try:
                return super().write(text)
            except OSError as error:
                self._lost(error)
        return len(text)

    def write_bytes(self, data: bytes) -> None:
        """Writes raw bytes; only for a command that prints nothing else, since text may still be buffered."""
        if not self._nowhere:
            try:
                while data:
                    taken: object = self.buffer.write(data)
                    if not isinstance(taken, int):  # None: unbuffered (PYTHONUNBUFFERED) and non-blocking
                        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
                    data = data[taken:]
            except OSError as error:
                self._lost(error)

    def flush(self) -> None:
        """Flushes the buffer."""
        if not self._nowhere:
            try:
                super().flush()
            except OSError as error:
                self._lost(error)

    def finish(self) -> None:
        """Flushes the buffer and closes a copy of the descriptor: NFS and quotas may report an error only then."""
        self.flush()
        if not self._nowhere and not isinstance(self.buffer, _Closed):
            try:
                os.close(os.dup(self.fileno()))
            except OSError as error:
                self._lost(error)

    def _lost(self, error: OSError) -> None:
        self._nowhere = True
        # What is still buffered would fail again when the interpreter ends.
        with contextlib.suppress(OSError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
        if error.errno != errno.EPIPE:
            self.failure = error
            raise OutputError(str(error)) from error


class _Closed(io.RawIOBase):
    """Replaces a standard output that was closed before the program started."""

    def writable(self) -> bool:
        return True

    def write(self, _data: object) -> int:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
