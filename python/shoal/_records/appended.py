"""What `Records.append` returns. Not here: appending (the crate `shoal-records`)."""

from __future__ import annotations

from shoal._value import Value


class Appended(Value):
    """What an append has done.

    Attributes:
        records: How many records were appended.
        first: The place of the first of them in the file, counted from 0.
        cut: Bytes that were cut off the end of the file before: of an append that was killed, and with `tail="cut"` of
            half a record.
    """

    records: int
    first: int
    cut: int
