"""`mst doctor` names what is broken, with its fix, and is calm about what is only missing."""

import json
import tomllib
from pathlib import Path

import pytest

from mst.cli import doctor
from mst.testing.commandline import call_mst


@pytest.fixture(autouse=True)
def _bare(monkeypatch, tmp_path):
    for name in ("MST_BROKER_URL", "MST_STORE", "MST_SIGNING_KEY_FILE", "MST_FLEET_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def findings(capsys, code):
    said = call_mst(capsys, "doctor", "--json")
    assert said.code == code, said.out
    return {one["what"]: one for one in json.loads(said.out) if one["what"]}


def broken(found):
    return sorted(what for what, one in found.items() if one["state"] == "broken" and what.startswith("MST_"))


def test_nothing_set_up_is_not_broken(capsys):
    said = call_mst(capsys, "doctor")
    assert "MST_BROKER_URL" in said.out
    assert "fleets are embedded" in said.out


def test_a_broker_that_does_not_answer_is_broken_and_its_password_is_not_shown(capsys, monkeypatch):
    monkeypatch.setenv("MST_BROKER_URL", "redis://:hunter2hunter2@127.0.0.1:9/0")
    said = call_mst(capsys, "doctor")
    assert said.code == 2
    assert "does not answer" in said.out
    assert "hunter2" not in said.out + said.err


def test_a_store_that_works_is_good_and_stays_empty(capsys, monkeypatch, tmp_path):
    store = tmp_path / "store"
    store.mkdir()
    monkeypatch.setenv("MST_STORE", f"file:{store}")
    assert findings(capsys, 0)["MST_STORE"]["state"] == "good"
    assert list(store.iterdir()) == []


def test_a_key_that_others_can_read_is_broken(capsys, monkeypatch, tmp_path):
    key = tmp_path / "signing.key"
    key.write_text("{}")
    key.chmod(0o644)
    monkeypatch.setenv("MST_SIGNING_KEY_FILE", str(key))
    found = findings(capsys, 2)
    assert broken(found) == ["MST_SIGNING_KEY_FILE"]
    assert found["MST_SIGNING_KEY_FILE"]["fix"] == f"chmod 600 {key}"


def test_a_missing_extra_says_what_to_install(capsys, monkeypatch):

    monkeypatch.setitem(doctor.EXTRAS, "flower", ("no_such_module_here",))
    found = findings(capsys, 0)
    assert found["extra flower"]["state"] == "missing"
    assert found["extra flower"]["fix"] == "pip install 'mst[flower]'"


def test_every_extra_is_looked_at():
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert set(doctor.EXTRAS) == set(project["optional-dependencies"]) - {"all"}
