"""The fleet's key changed while its workers go on."""

import shutil
from datetime import UTC, datetime

import pytest

from mst.errors import RefusedError, UsageError
from mst.fleet.keys import load_fleet_key, load_recipients
from mst.fleet.rotation import FileKey, FileVerifier, retire, rotate
from mst.testing.commandline import run_mst
from mst.testing.fleet import Bed, fleet
from mst.testing.quiz_eval import digest

NOW = datetime(2026, 5, 1, tzinfo=UTC)
need_pyrage = pytest.importorskip("pyrage")


@pytest.mark.server
def test_workers_open_what_is_sealed_to_the_old_and_the_new_key_without_a_restart(tmp_path):
    with fleet(tmp_path / "fleet") as one:
        bed = Bed(one, tmp_path / "quiz", cases=2, secret=True)
        bed.ready(1)
        [worker] = one.workers.values()
        folder = one.keys.fleet_key.parent
        for step in ("before", "both", "after"):
            if step != "before":
                said = run_mst("fleet", "rotate", folder, *(["--retire"] if step == "after" else []), cwd=tmp_path)
                assert said.code == 0, said.err
            (tmp_path / "keys.env").write_text(f"QUIZ_KEY=value-{step}-of-the-quiz\n")
            bed.quiz.forget()
            said = bed.grade("--secrets-file", tmp_path / "keys.env", shards=1)
            assert said.code in (0, 1), said.err
            assert set(bed.quiz.lines("digests")) == {digest(f"value-{step}-of-the-quiz")}
        assert worker.process.poll() is None
        assert worker.log.count("keys_read_again") == 2


@pytest.fixture
def keys(tmp_path):
    said = run_mst("fleet", "keygen", tmp_path / "keys", cwd=tmp_path)
    assert said.code == 0, said.err
    return tmp_path / "keys"


def seal(recipients):
    return need_pyrage.encrypt(b"s", [need_pyrage.x25519.Recipient.from_str(one) for one in recipients])


def test_both_keys_open_during_a_change_and_only_the_new_one_after_it(keys):
    reader = FileKey(keys / "fleet.key")
    [old] = load_recipients(keys / "fleet.pub")
    new = rotate(keys, NOW)
    assert load_recipients(keys / "fleet.pub") == (old, new)
    assert (keys / "fleet.key").stat().st_mode & 0o777 == 0o600
    assert reader.decrypt(seal([old])) == reader.decrypt(seal([new])) == b"s"
    with pytest.raises(UsageError, match="end that change first"):
        rotate(keys, NOW)
    assert retire(keys, NOW) == [old]
    assert load_recipients(keys / "fleet.pub") == load_fleet_key(keys / "fleet.key").recipients == (new,)
    assert reader.decrypt(seal([new])) == b"s"
    with pytest.raises(RefusedError):
        reader.decrypt(seal([old]))
    with pytest.raises(UsageError, match="nothing to take away"):
        retire(keys, NOW)


def test_a_recovery_key_stays_through_a_change(keys, tmp_path):
    run_mst("fleet", "keygen", tmp_path / "recovery", cwd=tmp_path)
    [recovery] = load_recipients(tmp_path / "recovery" / "fleet.pub")
    with (keys / "fleet.pub").open("a") as file:
        file.write(recovery + "\n")
    new = rotate(keys, NOW)
    retire(keys, NOW)
    assert set(load_recipients(keys / "fleet.pub")) == {recovery, new}


def test_a_half_made_change_keeps_what_was_read(keys):
    reader, verifier = FileKey(keys / "fleet.key"), FileVerifier(keys / "signers.json")
    [old] = load_recipients(keys / "fleet.pub")
    known = verifier._entries
    (keys / "fleet.key").write_text("not a key\n")
    shutil.move(keys / "signers.json", keys / "elsewhere.json")
    assert reader.decrypt(seal([old])) == b"s"
    assert verifier._entries == known
