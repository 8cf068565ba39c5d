"""Random worlds of faulty services: `kinds` (what a server can do wrong), `plan` (a world from a seed), `world` (runs
it), `oracle` (judges what it left). Not here: the server itself (`servers/fault_server.py`), the test.
"""
