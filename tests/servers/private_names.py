"""Runs a command for which names mean what a test says: in mounts, and a network, of its own.

    unshare --mount [--net] python private_names.py [FILE=PLACE ...] [deaf] -- COMMAND ...

Each FILE stands in the place of one of the system's; `deaf` brings up loopback with a name server on it that never
answers.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import subprocess
import sys

SIOCSIFFLAGS, IFF_UP = 0x8914, 1


def main() -> None:
    """Prepares, then becomes the command."""
    at = sys.argv.index("--")
    for word in sys.argv[1:at]:
        if word == "deaf":
            server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            fcntl.ioctl(server, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))
            server.bind(("127.0.0.1", 53))
            server.set_inheritable(True)  # the command holds it, and does not know
            server.detach()
        else:
            file, _, place = word.partition("=")
            subprocess.run(["mount", "--bind", file, place], check=True)
    os.execvp(sys.argv[at + 1], sys.argv[at + 1 :])


main()
