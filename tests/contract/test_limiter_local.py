"""The limiter of one process keeps its contract."""

from mst.shards.limiter import LocalLimiter
from mst.testing.limiter import LimiterContract


class TestLocalLimiter(LimiterContract):
    def make(self):
        return LocalLimiter
