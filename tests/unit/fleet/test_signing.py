from datetime import timedelta

import pytest

from mst.errors import InvariantError, RefusedError
from mst.fleet.keys import SigningKey
from mst.fleet.signing import Verifier, allows, check_places, sign
from mst.model.base import canonical
from mst.model.fleet import Grant, Message, Signed

QUEUES = frozenset({"mst.grade.0.1.0"})
STORE = "s3://bucket/store?endpoint_url=http://here"


def open_(verifier, signed, now, queues=QUEUES):
    return verifier.envelope(signed, queues=queues, now=now)


def test_a_signed_envelope_comes_back_as_it_was(envelope, signing_key, trusted, now):
    signed = sign(envelope, signing_key)
    sent = Message(envelope=signed, hint={"attempt": 1}).to_json()
    received = Message.from_json(sent, "message").envelope
    assert open_(Verifier(trusted), received, now) == envelope


def test_signing_twice_gives_the_same_bytes(envelope, signing_key):
    assert sign(envelope, signing_key).to_json() == sign(envelope, signing_key).to_json()


def test_fields_of_a_newer_minor_version_are_signed_and_ignored(envelope, signing_key, trusted, now):
    import base64

    payload = {**envelope.to_dict(), "later": {"x": 1}}
    signature = base64.b64encode(signing_key.sign(canonical(payload))).decode()
    signed = Signed(payload=payload, key_id=signing_key.key_id, signature=signature)
    assert open_(Verifier(trusted), signed, now) == envelope
    changed = signed.model_copy(update={"payload": {**payload, "later": {"x": 2}}})
    with pytest.raises(RefusedError, match="bad signature"):
        open_(Verifier(trusted), changed, now)


@pytest.mark.parametrize("name", ["runId", "bundleUri", "bundleSha256", "deadline", "queue", "evalName", "limits"])
def test_any_changed_field_is_refused(envelope, signing_key, trusted, now, name):
    signed = sign(envelope, signing_key)
    changed = {**signed.payload, name: signed.payload["keyId"]}
    with pytest.raises(RefusedError, match="bad signature"):
        open_(Verifier(trusted), signed.model_copy(update={"payload": changed}), now)


def test_an_unlisted_key_is_refused(envelope, trusted, now):
    stranger = SigningKey.generate()
    signed = sign(envelope.model_copy(update={"key_id": stranger.key_id}), stranger)
    with pytest.raises(RefusedError, match="not a trusted signer"):
        open_(Verifier(trusted), signed, now)


def test_a_listed_key_id_with_a_strangers_signature_is_refused(envelope, signing_key, trusted, now):
    stranger = SigningKey.generate()
    signed = sign(envelope.model_copy(update={"key_id": stranger.key_id}), stranger)
    with pytest.raises(RefusedError, match="bad signature"):
        open_(Verifier(trusted), signed.model_copy(update={"key_id": signing_key.key_id}), now)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"eval_name": "other"}, "may not ask for eval"),
        ({"queue": "mst.collect.0.1.0"}, "may not use queue"),
        ({"queue": "mst.grade.gpu.0.1.0"}, "does not serve"),
    ],
)
def test_a_listed_key_may_ask_only_for_what_its_entry_allows(envelope, signing_key, trusted, now, change, fault):
    signed = sign(envelope.model_copy(update=change), signing_key)
    with pytest.raises(RefusedError, match=fault):
        open_(Verifier(trusted), signed, now)


def test_the_deadline_has_five_minutes_of_tolerance(envelope, signing_key, trusted):
    signed = sign(envelope, signing_key)
    open_(Verifier(trusted), signed, envelope.deadline + timedelta(minutes=5))
    with pytest.raises(RefusedError, match="deadline"):
        open_(Verifier(trusted), signed, envelope.deadline + timedelta(minutes=5, seconds=1))


def test_nothing_is_signed_in_another_key_s_name(envelope, signing_key):
    with pytest.raises(InvariantError, match=r"is being signed with"):
        sign(envelope, SigningKey.generate())


def test_a_grant_is_not_an_envelope(envelope, signing_key, trusted, now):
    grant = Grant(
        run_id=envelope.run_id,
        dispatch="d1",
        work="grade",
        eval_name="team-a",
        issue=1,
        expires_at=now,
        sha256="b" * 64,
        key_id=signing_key.key_id,
    )
    with pytest.raises(RefusedError, match="format"):
        open_(Verifier(trusted), sign(grant, signing_key), now)
    with pytest.raises(RefusedError, match="format"):
        Verifier(trusted).grant(sign(envelope, signing_key))


def test_an_envelope_over_4_kib_is_not_signed(envelope, signing_key, trusted, now):
    big = envelope.model_copy(update={"plugins": {f"plugin-{n}": "1.0" for n in range(300)}})
    with pytest.raises(InvariantError, match="4096"):
        sign(big, signing_key)
    huge = Signed(payload={"x": "y" * 5000}, key_id=signing_key.key_id, signature="")
    with pytest.raises(RefusedError, match="4096"):
        open_(Verifier(trusted), huge, now)


@pytest.mark.parametrize("payload", [{"x": 2**60}, {"x": float("nan")}, {}])
def test_what_has_no_canonical_form_or_no_content_is_refused(signing_key, trusted, now, payload):
    signed = Signed.model_construct(payload=payload, key_id=signing_key.key_id, signature="AAAA")
    with pytest.raises(RefusedError):
        open_(Verifier(trusted), signed, now)


def test_envelopes_may_point_into_their_own_dispatch_only(envelope):
    check_places(envelope, STORE)
    inside = envelope.results_uri.rpartition("/shards")[0]
    for uri in (
        "s3://elsewhere/store/team-a/dispatches/x/d1/shards/3",
        envelope.results_uri.replace("team-a", "team-b"),
        envelope.results_uri.replace("/d1/", "/d2/"),
        f"{inside}/../../../../team-b/shards/3",
        f"{envelope.results_uri}?endpoint_url=http://evil",
    ):
        for change in ({"results_uri": uri}, {"bundle_uri": uri}):
            with pytest.raises(RefusedError, match="must lie under"):
                check_places(envelope.model_copy(update=change), STORE)


def test_a_store_whose_name_only_begins_alike_is_another_store(envelope):
    with pytest.raises(RefusedError):
        check_places(envelope, "s3://bucket/sto")


def test_patterns_are_names_prefixes_or_everything():
    assert allows(["solo"], "solo")
    assert not allows(["solo"], "solo-2")
    assert allows(["team-*"], "team-a")
    assert not allows(["team-*"], "tea")
    assert allows(["*"], "anything")
    assert not allows([], "anything")
