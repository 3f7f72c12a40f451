"""Which tasks are open?"""

from query import Column, where

finished = Column("finished")


def open_tasks(rows):
    return where(rows, finished == None)
