"""Faults of the machine itself: these tests need root or a mount, and are skipped with a notice without."""
