"""Runs inside a sandbox in place of a server that runs beside it: its standard streams become those of the server.

`python relay_child.py PORT`: the port is a door on the sandbox's own loopback. Standard library only.
"""

import os
import socket
import sys
import threading


def main() -> None:
    """Pass bytes until the server ends; the end of the input is passed on too."""
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as server:
        threading.Thread(target=feed, args=(server,), daemon=True).start()
        while piece := server.recv(65536):
            view = memoryview(piece)
            while view:
                view = view[os.write(1, view) :]
    # Not the interpreter's own end: the other thread still waits for input.
    os._exit(0)


def feed(server: socket.socket) -> None:
    """From the input to the server."""
    try:
        while piece := os.read(0, 65536):
            server.sendall(piece)
        server.shutdown(socket.SHUT_WR)
    except OSError:
        return


if __name__ == "__main__":
    main()
