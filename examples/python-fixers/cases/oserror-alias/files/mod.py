"""Files that may be missing."""


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except IOError:
        return None


def size(path):
    try:
        with open(path, "rb") as file:
            return len(file.read())
    except (EnvironmentError, ValueError):
        return -1
