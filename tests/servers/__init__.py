"""Servers that the tests talk to: `fault_server` (a list/get service that misbehaves on command), `faults` (ready-made
misbehaviour), `ports` (where nobody answers), `fixtures`. Not here: any test; nothing of this is shipped.
"""
