"""`python -m mst`."""

from mst.cli import main

if __name__ == "__main__":
    main()
