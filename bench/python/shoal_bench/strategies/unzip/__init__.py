"""Ways of unpacking many zip archives, from the simplest to the fastest.

The first two are those of a memo of KZKY (2013), which reads 182 archives from a cold cache in Python and in Ruby;
the others are what it leaves open. Each reads every entry, which checks it, or extracts all below one directory. Each
is a script that needs nothing of shoal and can be copied into another program; `python FILE --help` tells how it is
run. None takes archives from strangers: they have no limits, and write what the archives say.
"""
