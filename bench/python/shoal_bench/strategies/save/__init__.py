"""Ways of saving thousands of files that a Python function makes, from the simplest to the fastest.

They are those of "Save thousands of files" (SuperFastPython, 2023), and the one it leaves open. Each is a script
that needs nothing of shoal and can be copied into another program; `python FILE --help` tells how it is run.
"""
