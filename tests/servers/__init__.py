"""Servers that the tests talk to. Here: `fault_server` (a list/get service that misbehaves on command), `faults`
(ready-made misbehaviour), `fixtures` (the pytest fixtures). Not here: any test, and nothing of this is shipped.
"""
