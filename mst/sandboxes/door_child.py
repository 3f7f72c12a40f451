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
    try:
        os.execvp(argv[0], argv)  # noqa: S606 - no shell, and that is the point
    except OSError as error:
        # As a shell has it, which is understood outside.
        missing = isinstance(error, FileNotFoundError | NotADirectoryError)
        sys.stderr.write(f"{argv[0]}: {'not found' if missing else error.strerror}\n")
        sys.exit(127 if missing else 126)


if __name__ == "__main__":
    main()
