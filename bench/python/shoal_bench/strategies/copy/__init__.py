"""Ways of copying very many small objects from a list/get service to a directory, from the simplest to the fastest.

They are those of "Downloading a Billion Files in Python" (PyCon 2019). Each is a script that needs nothing of shoal and
can be copied into another program; `python FILE --help` tells how it is run.
"""
