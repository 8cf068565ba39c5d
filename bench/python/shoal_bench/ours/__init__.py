"""shoal's own rows where they are calls from Python: each is a script like a strategy."""
