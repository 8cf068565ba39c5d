"""Random worlds of copies: `trees` (what is on disk, and what a copy must have), `moves` (what changes), `plan` (of one
world), `world` (runs it), `oracle` (judges what it left). Not here: the test.
"""
