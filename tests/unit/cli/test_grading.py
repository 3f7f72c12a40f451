from __future__ import annotations

import pytest

from mst.cli.grading import options_again, parse_options
from mst.config.registry import lookup


@pytest.mark.parametrize(
    ("name", "recorded"),
    [
        ("docker", {"shards": 2, "image": "mst:now", "image_id": "sha256:1", "network": "open"}),
        ("celery", {"shards": 3, "class": "gpu", "broker": "redis://h/0", "store": "file:s"}),
        ("process", {"shards": 2}),
        ("local", None),
    ],
)
def test_what_a_runner_recorded_can_be_given_again(name, recorded):
    options = parse_options(name, lookup("runners", name), options_again(name, recorded))
    for key, value in (recorded or {}).items():
        if key != "image_id":
            assert getattr(options, {"class": "worker_class"}.get(key, key)) == value
