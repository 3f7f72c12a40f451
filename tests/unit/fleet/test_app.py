from types import SimpleNamespace

import pytest

from mst.errors import UsageError
from mst.fleet.app import FleetSettings, fixed_settings, make_app, without_celery_environment, worker_argv
from mst.fleet.worker_check import differences

URL = "redis+socket://:hush@/run/s"


def test_only_our_task_is_registered():
    assert list(make_app(URL, task=print).tasks) == ["mst.shard"]
    assert list(make_app(URL).tasks) == []


def test_settings_reach_celery():
    conf = make_app(URL).conf
    assert conf.task_acks_late is False
    assert conf.worker_prefetch_multiplier == 1
    assert conf.accept_content == ["json"]
    assert conf.broker_connection_max_retries is None
    assert conf.broker_transport_options["global_keyprefix"] == "mst:"
    assert conf.broker_transport_options["visibility_timeout"] >= 6 * 3600


def test_the_password_is_not_in_what_celery_shows():
    app = make_app(URL)
    assert "hush" not in app.connection().as_uri()
    assert "hush" not in repr(app)
    assert not any("hush" in argument for argument in worker_argv(queues=["q"], slots=1, name="w"))


def test_a_short_visibility_timeout_is_refused():
    with pytest.raises(UsageError, match="at least 21600 s"):
        make_app(URL, FleetSettings(visibility_timeout_s=60))


def test_a_bad_prefix_is_refused():
    with pytest.raises(UsageError, match="prefix"):
        make_app(URL, FleetSettings(prefix="no colon"))


@pytest.mark.parametrize("task", [None, print])
@pytest.mark.parametrize("name", ["CELERY_BROKER_URL", "CELERY_BROKER_READ_URL", "CELERY_BROKER_WRITE_URL"])
def test_variables_of_another_celery_program_change_no_broker(monkeypatch, name, task):
    monkeypatch.setenv(name, "redis://elsewhere:1/9")
    app = make_app(URL, task=task)
    for connection in (app.connection_for_read(), app.connection_for_write(), app.connection()):
        assert connection.hostname == "socket://:hush@/run/s"


def test_variables_of_another_celery_program_change_neither_backend_nor_loader(monkeypatch):
    monkeypatch.setenv("CELERY_RESULT_BACKEND", "no.such:Backend")
    monkeypatch.setenv("CELERY_LOADER", "no.such:Loader")
    app = make_app(URL, task=print)
    assert type(app.backend).__name__ == "DisabledBackend"
    assert type(app.loader).__name__ == "AppLoader"


def test_they_are_dropped_where_celery_s_own_program_runs():
    environ = {
        "APP": "x",
        "BROKER_URL": "x",
        "CELERY_LOADER": "x",
        "REMAP_SIGTERM": "SIGQUIT",
        "PATH": "/bin",
        "MY_APP": "y",
    }
    without_celery_environment(environ)
    assert environ == {"PATH": "/bin", "MY_APP": "y"}


def worker(**changes):
    app = make_app(URL, task=print)
    app.conf.update(changes)
    pool = type("TaskPool", (), {"__module__": "celery.concurrency.thread"})
    return SimpleNamespace(app=app, pool_cls=pool, prefetch_multiplier=1)


OPTIONS = {"without_gossip": True, "without_mingle": True}


def test_a_worker_with_our_settings_has_no_differences():
    assert differences(worker(), OPTIONS, fixed_settings()) == []


@pytest.mark.parametrize(
    ("changes", "options", "fault"),
    [
        ({"task_acks_late": True}, OPTIONS, "task_acks_late is True, must be False"),
        ({"accept_content": ["json", "pickle"]}, OPTIONS, "accept_content"),
        ({"worker_enable_remote_control": True}, OPTIONS, "remote_control"),
        ({}, {"without_gossip": True}, "--without-mingle is missing"),
        ({}, {**OPTIONS, "autoscale": "9,1"}, "--autoscale is given"),
    ],
)
def test_differences_are_named(changes, options, fault):
    (found,) = differences(worker(**changes), options, fixed_settings())
    assert fault in found


def test_another_pool_and_prefetching_are_found():
    other = worker()
    other.pool_cls = type("TaskPool", (), {"__module__": "celery.concurrency.prefork"})
    other.prefetch_multiplier = 4
    found = differences(other, OPTIONS, fixed_settings())
    assert found == ["pool is prefork, must be threads", "prefetch multiplier is 4, must be 1"]
