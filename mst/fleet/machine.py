"""The cloud machine that a worker runs on: its notices, its protection from scale-in, its end.

A `Machine` says what the cloud plans (`notice`), and does what a worker may ask of it (`protect`, `end`);
`mst.fleet.spot` decides when. Here is plain HTTP to the machine's metadata address, and one client of the cloud's API.
"""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from typing import Any, Literal, Protocol

from mst.errors import InfrastructureError, UsageError
from mst.fleet.extras import need

METADATA_ENV = "MST_METADATA_URL"
"""Where the metadata service is, for tests and emulators."""
METADATA_S = 2.0
TOKEN_LIFE_S = 300
AWS_METADATA = "http://169.254.169.254"
GCP_METADATA = "http://metadata.google.internal"

Notice = Literal["none", "rebalance", "stop"]
"""`rebalance`: the machine may go soon; `stop`: it goes within two minutes (AWS) or half a minute (Google Cloud)."""


class Machine(Protocol):
    """What a worker asks of its machine. Thread-safe."""

    def notice(self) -> Notice:
        """What the cloud plans. An address that does not answer plans nothing: metadata services do hiccup."""
        ...

    def protect(self, protected: bool) -> None:
        """Keep this machine from scale-in, or let it go. Idempotent.

        Raises:
            InfrastructureError: the cloud refused or did not answer.
        """
        ...

    def end(self) -> None:
        """End this machine for good and make its group smaller by one.

        Raises:
            InfrastructureError: the cloud refused or did not answer.
        """
        ...


class NoMachine:
    """A machine that is nobody's to protect or end: a laptop, a server. See `Machine`."""

    def notice(self) -> Notice:
        """See `Machine.notice`."""
        return "none"

    def protect(self, protected: bool) -> None:
        """See `Machine.protect`."""

    def end(self) -> None:
        """See `Machine.end`."""


class AwsMachine:
    """An instance of an auto scaling group. Metadata by token only (IMDSv2)."""

    def __init__(self, *, metadata: str = AWS_METADATA) -> None:
        self._metadata = metadata
        self._token = ""
        self._token_until = 0.0
        self._group: str | None = None
        self._id = self._get("latest/meta-data/instance-id")
        region = self._get("latest/meta-data/placement/region")
        if self._id is None or region is None:
            raise UsageError("--cloud aws: the instance metadata does not answer; leave the option out elsewhere")
        self._client = need("boto3", "aws").client("autoscaling", region_name=region)
        exceptions = need("botocore.exceptions", "aws")
        self._errors = (exceptions.BotoCoreError, exceptions.ClientError)

    def notice(self) -> Notice:
        """See `Machine.notice`."""
        action = self._get("latest/meta-data/spot/instance-action")
        if action is not None and _is_end(action):
            return "stop"
        if self._get("latest/meta-data/autoscaling/target-lifecycle-state") == "Terminated":
            return "rebalance"
        return "rebalance" if self._get("latest/meta-data/events/recommendations/rebalance") is not None else "none"

    def protect(self, protected: bool) -> None:
        """See `Machine.protect`. A machine outside of a group has nothing to be protected from."""
        group = self._own_group()
        if group:
            self._call(
                "set_instance_protection",
                AutoScalingGroupName=group,
                InstanceIds=[self._id],
                ProtectedFromScaleIn=protected,
            )

    def end(self) -> None:
        """See `Machine.end`."""
        self._call("terminate_instance_in_auto_scaling_group", InstanceId=self._id, ShouldDecrementDesiredCapacity=True)

    def _own_group(self) -> str:
        if self._group is None:
            found = self._call("describe_auto_scaling_instances", InstanceIds=[self._id])["AutoScalingInstances"]
            self._group = str(found[0]["AutoScalingGroupName"]) if found else ""
        return self._group

    def _call(self, name: str, **arguments: Any) -> Any:
        try:
            return getattr(self._client, name)(**arguments)
        except self._errors as error:
            raise InfrastructureError(f"auto scaling, {name}: {error}") from error

    def _get(self, path: str) -> str | None:
        if time.monotonic() >= self._token_until:
            life = {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_LIFE_S)}
            token = _ask(f"{self._metadata}/latest/api/token", life, method="PUT")
            if token is None:
                return None
            self._token, self._token_until = token, time.monotonic() + TOKEN_LIFE_S / 2
        return _ask(f"{self._metadata}/{path}", {"X-aws-ec2-metadata-token": self._token})


class GcpMachine:
    """An instance of a managed instance group. It has no protection: its group scales out only."""

    def __init__(self, *, metadata: str = GCP_METADATA, api: str = "https://compute.googleapis.com/compute/v1") -> None:
        self._metadata = metadata
        self._api = api
        if self._get("instance/id") is None:
            raise UsageError("--cloud gcp: the metadata server does not answer; leave the option out elsewhere")

    def notice(self) -> Notice:
        """See `Machine.notice`."""
        if self._get("instance/preempted") == "TRUE":
            return "stop"
        return "rebalance" if self._get("instance/maintenance-event") == "TERMINATE_ON_HOST_MAINTENANCE" else "none"

    def protect(self, protected: bool) -> None:
        """See `Machine.protect`: nothing to do."""

    def end(self) -> None:
        """See `Machine.end`: through its group, which gets smaller by one."""
        created_by = self._get("instance/attributes/created-by")
        zone, name, token = (
            self._get("instance/zone"),
            self._get("instance/name"),
            self._get("instance/service-accounts/default/token"),
        )
        if None in (created_by, zone, name, token):
            raise InfrastructureError("this machine belongs to no managed group, or its metadata does not answer")
        assert created_by is not None
        assert zone is not None
        assert token is not None
        place = created_by.removeprefix("//compute.googleapis.com/")
        body = json.dumps({"instances": [f"{zone}/instances/{name}"]}).encode()
        headers = {"Authorization": f"Bearer {json.loads(token)['access_token']}", "Content-Type": "application/json"}
        if _ask(f"{self._api}/{place}/deleteInstances", headers, method="POST", body=body, wait_s=15) is None:
            raise InfrastructureError("Google Cloud did not end this machine; see the rights of its service account")

    def _get(self, path: str) -> str | None:
        return _ask(f"{self._metadata}/computeMetadata/v1/{path}", {"Metadata-Flavor": "Google"})


def open_machine(cloud: Literal["aws", "gcp"]) -> Machine:
    """The machine that this process runs on.

    Raises:
        UsageError: its metadata does not answer, or a library is missing.
    """
    metadata = os.environ.get(METADATA_ENV)
    if cloud == "aws":
        return AwsMachine(metadata=metadata or AWS_METADATA)
    return GcpMachine(metadata=metadata or GCP_METADATA)


def _is_end(action: str) -> bool:
    try:
        return json.loads(action).get("action") in ("terminate", "stop", "hibernate")
    except (ValueError, AttributeError):
        return False


def _ask(
    url: str, headers: dict[str, str], *, method: str = "GET", body: bytes | None = None, wait_s: float = METADATA_S
) -> str | None:
    """An answer's text; None for "not found" and for no answer."""
    request = urllib.request.Request(url, data=body, headers=headers, method=method)  # noqa: S310 - http(s) addresses of ours
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=wait_s) as answer:
            return str(answer.read(65536).decode(errors="replace"))
    except (urllib.error.URLError, OSError):
        return None
