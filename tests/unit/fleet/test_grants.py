import base64
from datetime import timedelta

import pytest

from mst.errors import RefusedError, UsageError
from mst.fleet.grants import GrantTarget, open_grant, seal, verify
from mst.fleet.keys import FleetKey
from mst.fleet.signing import Verifier
from mst.model.base import digest_bytes
from mst.model.fleet import TrustedSigners

VALUES = {"API_KEY": "correct horse battery staple", "OTHER": 'quote " and \u00fc'}


@pytest.fixture
def target(envelope):
    return GrantTarget(run_id=envelope.run_id, dispatch="d1", work="grade", eval_name="team-a")


@pytest.fixture
def make(target, signing_key, fleet_key, now):
    def seal_it(**changes):
        options = {
            "issue": 1,
            "expires_at": now + timedelta(hours=1),
            "recipients": fleet_key.recipients,
            "key": signing_key,
        }
        return seal(changes.pop("target", target), VALUES, **{**options, **changes})

    return seal_it


def test_sealed_secrets_come_back(make, target, trusted, fleet_key, now):
    grant, blob = verify(make(), target, Verifier(trusted))
    opened = open_grant(grant, blob, fleet_key, now=now)
    assert opened.values == VALUES
    assert len(opened.refresh_key) == 32


def test_every_recipient_can_open_and_nobody_else(make, target, trusted, fleet_key, now):
    recovery = FleetKey.generate()
    grant, blob = verify(make(recipients=fleet_key.recipients + recovery.recipients), target, Verifier(trusted))
    assert open_grant(grant, blob, recovery, now=now).values == VALUES
    assert open_grant(grant, blob, fleet_key, now=now).values == VALUES
    with pytest.raises(RefusedError, match="can't be opened"):
        open_grant(grant, blob, FleetKey.generate(), now=now)


def test_secrets_are_in_nothing_that_is_stored_or_shown(make, target, trusted, fleet_key, now):
    sealed = make()
    grant, blob = verify(sealed, target, Verifier(trusted))
    opened = open_grant(grant, blob, fleet_key, now=now)
    shown = sealed.to_json().decode() + repr(sealed) + repr(grant) + repr(opened) + blob.decode("latin-1")
    for value in VALUES.values():
        assert value not in shown
        assert base64.b64encode(value.encode()).decode() not in shown


def test_a_key_may_grant_secrets_to_the_evals_of_its_entry_only(make, target, signing_key):
    """Else whoever may sign for one eval could put its own secrets before another's shards."""
    listed = TrustedSigners(signers=[signing_key.entry(evals=["team-b*"], queues=["*"])])
    with pytest.raises(RefusedError, match="may not grant secrets to eval 'team-a'"):
        verify(make(), target, Verifier(listed))


def test_a_swapped_blob_is_refused(make, target, trusted):
    mine, other = make(), make()
    with pytest.raises(RefusedError, match="not those that were signed"):
        verify(mine.model_copy(update={"blob": other.blob}), target, Verifier(trusted))


@pytest.mark.parametrize("change", [{"dispatch": "d2"}, {"work": "collect"}, {"eval_name": "team-b"}])
def test_another_dispatchs_grant_is_refused(make, target, trusted, change):
    from dataclasses import replace

    with pytest.raises(RefusedError, match="another dispatch"):
        verify(make(target=replace(target, **change)), target, Verifier(trusted))


def test_an_old_blob_under_a_new_record_is_refused(make, target, trusted, fleet_key, now, signing_key):
    # Whoever may sign could vouch for another's blob; what is inside says what it is for.
    grant, blob = verify(make(), target, Verifier(trusted))
    lying = grant.model_copy(update={"issue": 2, "sha256": digest_bytes(blob)})
    with pytest.raises(RefusedError, match="belong to another grant"):
        open_grant(lying, blob, fleet_key, now=now)


def test_expiry_has_five_minutes_of_tolerance(make, target, trusted, fleet_key, now):
    grant, blob = verify(make(expires_at=now), target, Verifier(trusted))
    open_grant(grant, blob, fleet_key, now=now + timedelta(minutes=5))
    with pytest.raises(RefusedError, match="expired"):
        open_grant(grant, blob, fleet_key, now=now + timedelta(minutes=5, seconds=1))


def test_an_unreadable_plaintext_is_not_quoted(target, trusted, fleet_key, now, make):
    import pyrage

    from mst.fleet.keys import check_recipients

    grant, _ = verify(make(), target, Verifier(trusted))
    blob = pyrage.encrypt(b'{"values": {"K": "hush-hush"}', check_recipients(fleet_key.recipients, "here"))
    with pytest.raises(RefusedError) as caught:
        open_grant(grant, blob, fleet_key, now=now)
    assert "hush" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_too_many_secrets_and_no_recipient_are_user_errors(make, target, signing_key, fleet_key, now):
    with pytest.raises(UsageError, match="--secrets-file"):
        seal(target, {"K": "x" * 200_000}, issue=1, expires_at=now, recipients=fleet_key.recipients, key=signing_key)
    with pytest.raises(UsageError, match="no age recipient"):
        make(recipients=())
