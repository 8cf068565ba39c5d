"""The command lines whose output `test_snapshots.py` keeps for review, and the place in which they run."""
