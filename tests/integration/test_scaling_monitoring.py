"""Alert rules and dashboard: promtool tries them, and every metric that they name is one that we publish."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from prometheus_client import generate_latest

from mst.fleet.coordinator_metrics import CoordinatorMetrics, Counts
from mst.fleet.metrics import SignalMetrics, WorkerMetrics
from mst.fleet.scale import Signal

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "infra" / "monitoring"
RUNBOOK = ROOT / "docs" / "how-to" / "operate-a-fleet.md"
NAME = re.compile(r"\bmst_[a-z_]+")


def published():
    worker, signal = WorkerMetrics(), SignalMetrics("p")
    worker.attempt_started()
    worker.attempt_ended(work="grade", eval_name="e", how="committed", seconds=1)
    worker.unit_done(work="grade", eval_name="e", seconds=1)
    worker.message_dropped("committed")
    worker.used(eval_name="e", judge_calls=2, cost_usd=0.5)
    signal.publish(Signal())
    coordinator = CoordinatorMetrics(lambda: Counts(work="grade", done=1, shards={"running": 1}))
    text = "".join(generate_latest(one.registry).decode() for one in (worker, signal, coordinator))
    return {NAME.match(line).group() for line in text.splitlines() if line.startswith("mst_")}


def rules():
    groups = yaml.safe_load((FOLDER / "prometheus" / "alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_alerts_use_metrics_that_there_are_and_say_what_to_do():
    known = published()
    chapters = re.findall(r"^## (.+)$", RUNBOOK.read_text(), re.MULTILINE)
    for rule in rules():
        assert set(NAME.findall(rule["expr"])) <= known, rule["alert"]
        assert rule["labels"]["severity"] in {"page", "ticket"}
        assert rule["annotations"]["runbook"] in chapters, rule["alert"]


def test_the_dashboard_shows_metrics_that_there_are():
    board = json.loads((FOLDER / "grafana" / "fleet.json").read_text())
    shown = {name for panel in board["panels"] for one in panel["targets"] for name in NAME.findall(one["expr"])}
    assert shown <= published()
    assert len(shown) >= 10
    places = [(one["gridPos"]["x"], one["gridPos"]["y"]) for one in board["panels"]]
    assert len(set(places)) == len(places)


def test_alarms_of_terraform_name_chapters_of_the_runbook():
    chapters = set(re.findall(r"^## (.+)$", RUNBOOK.read_text(), re.MULTILINE))
    named = {
        name
        for path in (ROOT / "infra" / "terraform").rglob("alarms.tf")
        for name in re.findall(r"see '([^']+)'", path.read_text())
    }
    assert named
    assert named <= chapters


@pytest.mark.parametrize("arguments", [("check", "rules", "alerts.yml"), ("test", "rules", "alerts.test.yml")])
def test_promtool_accepts_and_tries_the_alerts(arguments):
    program = os.environ.get("MST_PROMTOOL") or shutil.which("promtool")
    if program is None:
        reason = "NOT CHECKED: alert rules by promtool, which is neither on PATH nor named by MST_PROMTOOL"
        sys.stderr.write(f"{reason}\n")
        pytest.skip(reason)
    done = subprocess.run(
        [program, *arguments], cwd=FOLDER / "prometheus", capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
