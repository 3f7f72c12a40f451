import json

import pytest

from mst.errors import RefusedError, UsageError
from mst.fleet import keys
from mst.fleet.keys import FleetKey, SigningKey, keygen, load_fleet_key, load_recipients, load_signing_key


@pytest.fixture
def files(tmp_path, now):
    return keygen(tmp_path / "keys", evals=["*"], queues=["*"], now=now)


def test_keygen_makes_files_that_load_and_belong_together(files):
    signing = load_signing_key(files.signing_key)
    fleet = load_fleet_key(files.fleet_key)
    signers = keys.load_trusted_signers(files.signers)
    assert [one.key_id for one in signers.signers] == [signing.key_id]
    assert load_recipients(files.recipients) == fleet.recipients == load_recipients(files.fleet_key)


def test_private_files_are_for_their_user_only(files):
    assert files.signing_key.stat().st_mode & 0o777 == 0o600
    assert files.fleet_key.stat().st_mode & 0o777 == 0o600
    assert files.signing_key.parent.stat().st_mode & 0o777 == 0o700
    assert sorted(path.name for path in files.signing_key.parent.iterdir()) == [
        "fleet.key",
        "fleet.pub",
        "signers.json",
        "signing.key",
    ]


def test_keygen_never_overwrites(files, now):
    before = files.signing_key.read_bytes()
    with pytest.raises(UsageError, match="already there"):
        keygen(files.signing_key.parent, evals=["*"], queues=["*"], now=now)
    assert files.signing_key.read_bytes() == before


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o606])
def test_private_keys_that_others_can_read_are_refused(files, mode):
    for path, load in ((files.signing_key, load_signing_key), (files.fleet_key, load_fleet_key)):
        path.chmod(mode)
        with pytest.raises(UsageError, match="chmod 600"):
            load(path)


def test_a_list_of_signers_that_everyone_may_write_is_refused(files):
    files.signers.chmod(0o646)
    with pytest.raises(UsageError, match="chmod o-w"):
        keys.load_trusted_signers(files.signers)


def test_nothing_private_is_in_a_repr_or_an_error(files, now):
    signing, fleet = load_signing_key(files.signing_key), load_fleet_key(files.fleet_key)
    text = files.signing_key.read_text() + files.fleet_key.read_text()
    secrets = [line for line in text.splitlines() if line.startswith("AGE-SECRET")]
    secrets.append(signing.document(now).private_key)
    shown = repr(signing) + repr(fleet) + repr(signing.document(now))
    files.fleet_key.write_text(secrets[0][:-3] + "QQQ\n")
    with pytest.raises(UsageError) as caught:
        load_fleet_key(files.fleet_key)
    files.signing_key.write_text(files.signing_key.read_text().replace('"created"', '"createt"'))
    with pytest.raises(UsageError) as other:
        load_signing_key(files.signing_key)
    for error in (caught.value, other.value):
        shown += str(error) + repr(error.__cause__)
    for secret in secrets:
        assert secret not in shown
        assert secret[:24] not in shown


def test_a_key_file_whose_halves_differ_is_refused(files, now):
    other = SigningKey.generate().document(now)
    mine = load_signing_key(files.signing_key).document(now)
    files.signing_key.write_bytes(mine.model_copy(update={"public_key": other.public_key}).to_json())
    with pytest.raises(UsageError, match="does not belong"):
        load_signing_key(files.signing_key)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda entry: [entry, entry], "listed twice"),
        (lambda entry: [{**entry, "keyId": "0" * 16}], "does not belong"),
        (lambda entry: [{**entry, "publicKey": "!"}], "pattern"),
    ],
)
def test_bad_lists_of_signers_are_refused(files, change, fault):
    document = keys.load_trusted_signers(files.signers)
    changed = {**document.to_dict(), "signers": change(document.signers[0].to_dict())}
    files.signers.write_text(json.dumps(changed))
    with pytest.raises(UsageError, match=fault):
        keys.load_trusted_signers(files.signers)


def test_recipients_must_be_age_keys(tmp_path):
    path = tmp_path / "fleet.pub"
    path.write_text("# nobody\n")
    with pytest.raises(UsageError, match="names no age recipient"):
        load_recipients(path)
    path.write_text("age1nonsense\n")
    with pytest.raises(UsageError, match="recipient 1"):
        load_recipients(path)


def test_a_fleet_key_opens_only_what_is_sealed_to_it():
    import pyrage

    mine, other = FleetKey.generate(), FleetKey.generate()
    blob = pyrage.encrypt(b"x", keys.check_recipients(mine.recipients, "here"))
    assert mine.decrypt(blob) == b"x"
    with pytest.raises(RefusedError, match="can't be opened"):
        other.decrypt(blob)
    with pytest.raises(RefusedError):
        mine.decrypt(blob[:-1])


def test_a_second_identity_in_the_file_keeps_old_grants_readable(files, now):
    import pyrage

    old, new = load_fleet_key(files.fleet_key), FleetKey.generate()
    files.fleet_key.write_text(new.file_text(now) + old.file_text(now))
    both = load_fleet_key(files.fleet_key)
    assert both.recipients == new.recipients + old.recipients
    blob = pyrage.encrypt(b"x", keys.check_recipients(old.recipients, "here"))
    assert both.decrypt(blob) == b"x"
