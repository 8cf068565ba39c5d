"""Random worlds of copies: `trees` (what is on disk, and what a copy of it must have), `moves` (what changes between two
sessions), `plan` (a world from a seed), `world` (runs it), `oracle` (judges what it left). Not here: the test.
"""
