"""Notes in files and in memory."""

import io


def load(path):
    with io.open(path, encoding="utf-8") as file:
        return file.read()


def buffer(text):
    return io.StringIO(text)
