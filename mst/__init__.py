"""mst: does setup B do the job better than setup A, and how sure are we?"""

__version__ = "0.1.0"
