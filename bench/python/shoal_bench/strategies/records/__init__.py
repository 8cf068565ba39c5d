"""Ways to read a large file of 16-byte records in Python, one record after the other.

They are those of "I/O performance in Python" (rabexc.org), with its flat index of 93,368,320 records; then `mmap` and
`struct`, which the article names and does not measure. Some take the bytes in pieces and never split them: that is the
article's own comparison, and shows what splitting costs. Each file is a script that does not import shoal.
"""
