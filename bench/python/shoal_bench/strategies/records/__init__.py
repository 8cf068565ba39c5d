"""Ways of going through a large file of 16-byte records, one after the other, in Python.

Those of "I/O performance in Python" (rabexc.org), whose flat index has 93,368,320 records, in the article's order; then
the two it names and does not measure, `mmap` and `struct`, and a bound `read`, the fastest of the plain forms. Some of
them take the bytes in pieces and never split them: that is the article's own comparison, and what splitting costs.
Each is a script that needs nothing of shoal and can be copied into another program; `python FILE --help` tells how it
is run.
"""

ORDER: tuple[str, ...] = (
    "naive",
    "buffer_32k",
    "io_open",
    "os_read_16",
    "os_read_1m",
    "os_read_1m_slices",
    "whole_slices",
    "readinto_16",
    "readinto_16_unbuffered",
    "readinto_8k",
    "readinto_1m",
    "readinto_32k",
    "bound_read",
    "memory_map",
    "struct_unpack",
    "struct_iter_unpack",
)
