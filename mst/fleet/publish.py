"""The scaling signal on its way to whoever scales: CloudWatch, Cloud Monitoring, or Prometheus."""

from __future__ import annotations

import time
from typing import Any, Protocol

from mst.errors import InfrastructureError
from mst.fleet.extras import need
from mst.fleet.scale import Signal

NAMESPACE = "mst"
GCP_PREFIX = "custom.googleapis.com/mst"


class Publisher(Protocol):
    """Somewhere that a signal is published. One per pool."""

    def publish(self, signal: Signal) -> None:
        """Publish it under this moment's time. Blocks until it is taken.

        Raises:
            InfrastructureError: it was not taken. The caller goes on: the next one is due soon.
        """
        ...


class CloudWatch:
    """Metrics in the namespace `mst`, with the dimension `Pool`. Region and credentials as AWS's tools find them."""

    def __init__(self, pool: str) -> None:
        self._pool = pool
        self._client = need("boto3", "aws").client("cloudwatch")
        exceptions = need("botocore.exceptions", "aws")
        self._errors = (exceptions.BotoCoreError, exceptions.ClientError)

    def publish(self, signal: Signal) -> None:
        """See `Publisher.publish`."""
        rows = (
            ("ShardsQueued", signal.queued, "Count"),
            ("ShardsRunning", signal.running, "Count"),
            ("LeasesExpired", signal.expired, "Count"),
            ("OldestWaitSeconds", signal.oldest_wait_s, "Seconds"),
            ("Workers", signal.workers, "Count"),
            ("BacklogPerWorker", signal.backlog_per_worker, "None"),
        )
        data = [
            {
                "MetricName": name,
                "Value": float(value),
                "Unit": unit,
                "Dimensions": [{"Name": "Pool", "Value": self._pool}],
                # Both of a minute's halves are kept, so an alarm sees the higher one.
                "StorageResolution": 60,
            }
            for name, value, unit in rows
        ]
        try:
            self._client.put_metric_data(Namespace=NAMESPACE, MetricData=data)
        except self._errors as error:
            raise InfrastructureError(f"CloudWatch did not take the scaling signal: {error}") from error


class CloudMonitoring:
    """Custom metrics `mst/*` on the resource `generic_task`, labelled with the pool."""

    def __init__(self, pool: str, project: str, *, client: Any = None) -> None:
        self._pool = pool
        self._project = project
        self._library = need("google.cloud.monitoring_v3", "gcp")
        self._client = client or self._library.MetricServiceClient()
        self._errors = need("google.api_core.exceptions", "gcp").GoogleAPICallError

    def publish(self, signal: Signal) -> None:
        """See `Publisher.publish`."""
        rows = {
            "shards_queued": signal.queued,
            "shards_running": signal.running,
            "leases_expired": signal.expired,
            "oldest_wait_seconds": signal.oldest_wait_s,
            "workers": signal.workers,
            "backlog_shards": signal.backlog,
            "backlog_per_worker": signal.backlog_per_worker,
        }
        series = [self._series(name, float(value)) for name, value in rows.items()]
        try:
            self._client.create_time_series(name=f"projects/{self._project}", time_series=series, timeout=10)
        except self._errors as error:
            raise InfrastructureError(f"Cloud Monitoring did not take the scaling signal: {error}") from error

    def _series(self, name: str, value: float) -> Any:
        series = self._library.TimeSeries()
        series.metric.type = f"{GCP_PREFIX}/{name}"
        series.metric.labels["pool"] = self._pool
        series.resource.type = "generic_task"
        series.resource.labels.update(
            {
                "project_id": self._project,
                "location": "global",
                "namespace": "mst",
                "job": "scaler",
                "task_id": self._pool,
            }
        )
        now = {"seconds": int(time.time())}
        series.points = [self._library.Point({"interval": {"end_time": now}, "value": {"double_value": value}})]
        return series
