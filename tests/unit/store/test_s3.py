"""Where S3 settings and credentials come from."""

import pytest

from mst.errors import UsageError
from mst.store.address import read_address
from mst.store.s3 import SETTINGS, _config


def config(uri, environ, endpoint=None):
    return _config(read_address(uri, SETTINGS).settings, environ, endpoint)


@pytest.fixture
def files(tmp_path):
    (tmp_path / "credentials").write_text(
        "[default]\naws_access_key_id = DK\naws_secret_access_key = d%s\n"
        "[team]\naws_access_key_id = TK\naws_secret_access_key = ts\naws_session_token = tt\n"
    )
    (tmp_path / "config").write_text(
        "[default]\nregion = eu-a\n[profile team]\nregion = eu-b\n[profile sso]\nsso_session = x\n"
    )
    return {
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
    }


def test_the_environment_gives_keys(files):
    environ = files | {
        "AWS_ACCESS_KEY_ID": "K",
        "AWS_SECRET_ACCESS_KEY": "S",
        "AWS_SESSION_TOKEN": "T",
        "AWS_REGION": "r",
    }
    found = config("s3://b/p", environ)
    assert found == {"region": "r", "access_key_id": "K", "secret_access_key": "S", "session_token": "T"}


def test_a_named_profile_beats_the_environment(files):
    environ = files | {"AWS_ACCESS_KEY_ID": "K", "AWS_SECRET_ACCESS_KEY": "S"}
    found = config("s3://b/p?profile=team", environ)
    assert found == {"region": "eu-b", "access_key_id": "TK", "secret_access_key": "ts", "session_token": "tt"}
    assert config("s3://b/p", files | {"AWS_PROFILE": "team"}) == found


def test_the_default_profile_is_the_last_before_the_machines_role(files):
    assert config("s3://b/p", files) == {"region": "eu-a", "access_key_id": "DK", "secret_access_key": "d%s"}
    assert config("s3://b/p", files | {"AWS_WEB_IDENTITY_TOKEN_FILE": "/t"}) == {"region": "us-east-1"}
    assert config("s3://b/p", {"HOME": "/nowhere"}) == {"region": "us-east-1"}


@pytest.mark.parametrize("name", ["sso", "nobody"])
def test_a_profile_without_keys_says_the_way_out(files, name):
    with pytest.raises(UsageError, match=f"export-credentials --profile {name}"):
        config(f"s3://b/p?profile={name}", files)


def test_a_broken_file_is_named_and_not_quoted(files, tmp_path):
    (tmp_path / "credentials").write_text("secret-without-a-section = x\n")
    with pytest.raises(UsageError, match="credentials file") as caught:
        config("s3://b/p", files)
    assert "secret-without" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_settings_pass_through():
    found = config(
        "s3://b/p?region=x&addressing=virtual&server_side_encryption=aws:kms&sse_kms_key_id=arn:k",
        {"AWS_REGION": "other", "HOME": "/nowhere"},
        "https://host:1/",
    )
    assert found == {
        "region": "x",
        "endpoint": "https://host:1",
        "virtual_hosted_style_request": True,
        "server_side_encryption": "aws:kms",
        "sse_kms_key_id": "arn:k",
    }
