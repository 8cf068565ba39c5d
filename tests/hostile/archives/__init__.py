"""Hostile archives, made byte by byte: no library that would refuse to write them stands in between.

Here: a writer of zip (`zips.py`) and one of tar (`tars.py`) in which every field can be set to lie, overlap bombs
(`bombs.py`), damaged compressed streams (`streams.py`), the archives themselves with what is expected of each
(`zip_*.py`, `tar_*.py`; the words for it are in `case.py`), and the judge that every run of the command goes through
(`judge.py`). Not here: the names, which all formats share (`tests/names.json`), and the tests.
"""
