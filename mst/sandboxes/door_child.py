"""Runs inside a sandbox without a network: opens a port on its loopback and hands it to the process outside.

`python door_child.py SOCKET PORT -- PROGRAM ARGUMENT...`: the listening socket goes over the UNIX socket at SOCKET,
then this process becomes PROGRAM. Whoever connects to the port inside is answered outside. Standard library only.
"""

import os
import socket
import sys


def main() -> None:
    """Hand over, then become the program."""
    place, port, _, *argv = sys.argv[1:]
    with socket.create_server(("127.0.0.1", int(port)), backlog=64) as door, socket.socket(socket.AF_UNIX) as outside:
        outside.connect(place)
        socket.send_fds(outside, [b"door"], [door.fileno()])
        outside.recv(1)
    os.execvp(argv[0], argv)  # noqa: S606 - no shell, and that is the point


if __name__ == "__main__":
    main()
