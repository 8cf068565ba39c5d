"""The real command against a service that does what it should not, row by row of the fault matrix.

Here: one file for each part of a conversation (connection, bodies, listing, retry, redirects and secrets, names), the
oracle that every test ends with, and the test of the server itself. Not here: the server (`servers/`), full disks.
"""
