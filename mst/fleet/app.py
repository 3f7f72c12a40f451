"""The Celery application: one task, JSON only, acknowledged early; and the settings that a worker must run with.

Late acknowledgement is not used: on Redis every dropped connection puts a running task back on the queue, and it runs
twice at once. A message is a hint; the ledger says who works on a shard (`docs/adr/0005`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from mst.errors import UsageError
from mst.fleet.connect import SOCKET_SCHEME, check_url, tls_options
from mst.fleet.extras import need
from mst.fleet.gate import TASK_NAME, OnRefused, gated
from mst.fleet.ledger_keys import DEFAULT_PREFIX, Keys
from mst.fleet.worker_check import add_worker_check
from mst.fleet.worker_gate import MayTake, add_worker_gate

CeleryApp: TypeAlias = Any
"""A `celery.Celery`. The library is optional and untyped."""

VISIBILITY_TIMEOUT_S = 6 * 3600
CELERY_ENVIRONMENT = frozenset(
    {"APP", "BROKER_URL", "RESULT_BACKEND", "LOADER", "CONFIG_MODULE", "SKIP_CHECKS", "REMAP_SIGTERM"}
)
"""Variables that Celery's command line heeds, beside all that begin with `CELERY_`: often another program's."""

ShardTask: TypeAlias = Callable[[Mapping[str, Any]], None]
"""Handles one message; called in a pool thread."""


@dataclass(frozen=True)
class FleetSettings:
    """What differs between fleets."""

    prefix: str = DEFAULT_PREFIX
    """Before every key in Redis; a pool of its own has a prefix of its own."""
    visibility_timeout_s: int = VISIBILITY_TIMEOUT_S
    """Only a message between leaving its queue and being acknowledged sees this."""
    answer_s: float = 30.0
    """Longest wait for an answer of Redis."""


def make_app(
    broker_url: str,
    settings: FleetSettings | None = None,
    *,
    task: ShardTask | None = None,
    refused: OnRefused = lambda: None,
    may_take: MayTake = lambda: True,
) -> CeleryApp:
    """The application for a coordinator (`task=None`: it only sends) or for a worker.

    Nothing is sent until it is used. A worker that was started with other settings ends with exit code 2, and drops
    whatever no coordinator sent.

    Args:
        broker_url: the one broker, whatever Celery's own variables in the environment name.
        settings: see there.
        task: handles the messages of a worker.
        refused: told of each message that a worker drops.
        may_take: whether a worker may take a message now; asked again and again.

    Raises:
        UsageError: a broker URL of another kind, a bad prefix, or Celery is not installed.
    """
    fleet = settings or FleetSettings()
    app = _celery(broker_url, refused if task is not None else None)
    app.conf.update(celery_settings(broker_url, fleet))
    app.finalize()
    for name in [name for name in app.tasks if name.startswith("celery.")]:
        app.tasks.unregister(name)
    if task is not None:
        _register(app, task)
        add_worker_gate(app, may_take)
    add_worker_check(app, fixed_settings())
    return app


def fixed_settings() -> dict[str, Any]:
    """What every coordinator and worker runs with; a worker checks these when it starts."""
    return {
        "task_acks_late": False,
        "task_reject_on_worker_lost": False,
        "worker_prefetch_multiplier": 1,
        "worker_disable_prefetch": True,
        "worker_pool": "threads",
        "worker_enable_remote_control": False,
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        "worker_hijack_root_logger": False,
        "worker_redirect_stdouts": False,
        "worker_send_task_events": True,
        "task_send_sent_event": False,
        "task_track_started": True,
        "task_ignore_result": True,
        "task_store_errors_even_if_ignored": False,
        "result_backend": None,
        "task_serializer": "json",
        "event_serializer": "json",
        "result_serializer": "json",
        "accept_content": ["json"],
        "task_protocol": 2,
        "task_default_delivery_mode": "persistent",
        "task_create_missing_queues": True,
        "task_remote_tracebacks": False,
        "broker_connection_retry": True,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "enable_utc": True,
        "timezone": "UTC",
    }


def celery_settings(broker_url: str, fleet: FleetSettings) -> dict[str, Any]:
    """All settings of the application.

    Raises:
        UsageError: a bad URL or prefix.
    """
    prefix = Keys(fleet.prefix).prefix
    if fleet.visibility_timeout_s < VISIBILITY_TIMEOUT_S:
        raise UsageError(f"visibility timeout {fleet.visibility_timeout_s} s: at least {VISIBILITY_TIMEOUT_S} s")
    options: dict[str, Any] = {
        "global_keyprefix": prefix,
        "visibility_timeout": fleet.visibility_timeout_s,
        "socket_timeout": fleet.answer_s,
        "health_check_interval": 25,
        "max_connections": 20,
        "retry_on_timeout": True,
    }
    if not broker_url.startswith(SOCKET_SCHEME):
        options |= {"socket_connect_timeout": 10, "socket_keepalive": True}
    secure = tls_options(broker_url)
    return {
        **fixed_settings(),
        # without options of its own, kombu takes TLS without looking at the certificate
        **({"broker_use_ssl": secure} if secure else {}),
        "broker_url": check_url(broker_url),
        "broker_transport_options": options,
        "broker_pool_limit": 10,
        "broker_connection_timeout": 10,
        # A queue that nobody named is one that nobody serves.
        "task_default_queue": "mst.none",
        "task_publish_retry": True,
        "task_publish_retry_policy": {"max_retries": 5, "interval_start": 0.1, "interval_step": 0.4, "interval_max": 2},
    }


def worker_argv(*, queues: list[str], slots: int, name: str, log_level: str = "INFO") -> list[str]:
    """Arguments for `app.worker_main`: the settings that Celery takes on its command line only.

    Args:
        queues: the queues to serve.
        slots: shards at a time, one thread each.
        name: unique among the fleet's workers; shown in Flower.
        log_level: of Celery's own log.
    """
    return [
        "worker",
        "--pool=threads",
        f"--concurrency={slots}",
        f"--queues={','.join(queues)}",
        f"--hostname={name}",
        f"--loglevel={log_level}",
        "--without-gossip",
        "--without-mingle",
        "--task-events",
    ]


def without_celery_environment(environ: MutableMapping[str, str]) -> None:
    """For a process that becomes Celery's own program: drop what was meant for another one on this machine."""
    for name in [name for name in environ if name in CELERY_ENVIRONMENT or name.startswith("CELERY_")]:
        del environ[name]


def _celery(broker_url: str, refused: OnRefused | None) -> CeleryApp:
    """A Celery whose broker is this one, and that keeps no results: for its own class the environment comes first."""
    celery, amqp = need("celery"), need("celery.app.amqp").AMQP

    class OneBroker(celery.Celery):  # type: ignore[misc, name-defined]  # the library is untyped
        backend_cls = "disabled"

        def _connection(self, url: str, *given: Any, **options: Any) -> Any:
            return super()._connection(broker_url, *given, **options)

    return OneBroker(
        "mst",
        amqp=amqp if refused is None else gated(amqp, refused),
        loader="celery.loaders.app:AppLoader",
        set_as_current=False,
    )


def _register(app: CeleryApp, task: ShardTask) -> None:
    def shard(message: Mapping[str, Any]) -> None:
        task(message)

    app.task(shard, name=TASK_NAME, shared=False, max_retries=0, acks_late=False, ignore_result=True)
