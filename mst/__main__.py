"""`mst` and `python -m mst`: Ctrl-C while the program itself is still loading ends like any other."""

import sys


def main() -> None:
    """Entry point; loads nothing before Ctrl-C is heard."""
    try:
        from mst.cli import main as command_line  # noqa: PLC0415 - loading it is what may be interrupted

        command_line()
    except KeyboardInterrupt:
        sys.stderr.write("\nmst: interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
