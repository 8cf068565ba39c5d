"""The result of `Records.append`. Not here: appending (the crate `shoal-records`)."""

from __future__ import annotations

from shoal._value import Value


class Appended(Value):
    """The result of an append.

    Attributes:
        records: How many records were appended.
        first: Index of the first of them in the file, counted from 0.
        cut: Bytes that were truncated from the end of the file first: what a killed append had left, and with
            `tail="cut"` an incomplete record.
    """

    records: int
    first: int
    cut: int
