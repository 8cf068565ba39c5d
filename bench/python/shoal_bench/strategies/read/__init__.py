"""Ways of reading many files into a program, from the simplest to the most elaborate.

Where they end is a loop in the calling program that gets every name and content and adds up the bytes, but for
`processes`, whose contents stay in the processes. The shared list of tasks is that of "Multi Threaded File IO" (2019,
in Java). Each is a script that needs nothing of shoal and can be copied into another program; `python FILE --help`
tells how it is run.
"""
