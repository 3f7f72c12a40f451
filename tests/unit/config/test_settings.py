from __future__ import annotations

import pytest

from mst.config.settings import Settings, masked_url
from mst.errors import UsageError


def test_settings_come_from_the_environment_and_hide_passwords(tmp_path):
    key = tmp_path / "key"
    key.write_text("k")
    settings = Settings.from_environment(
        {
            "MST_BROKER_URL": "rediss://user:hunter2@host:6380/1",
            "MST_STORE": "s3://bucket/prefix?access_key=hunter3",
            "MST_SIGNING_KEY_FILE": str(key),
            "MST_FLEET_KEY_FILE": "",
        }
    )
    assert settings.broker_url == "rediss://user:hunter2@host:6380/1"
    assert settings.signing_key_file == key
    assert settings.fleet_key_file is None
    for text in (repr(settings), str(settings), f"{settings}"):
        assert "hunter" not in text
        assert "user" not in text
        assert "host:6380" in text


def test_a_file_that_is_not_there_is_refused():
    with pytest.raises(UsageError, match="MST_FLEET_KEY_FILE: no such file: /no/such/file"):
        Settings.from_environment({"MST_FLEET_KEY_FILE": "/no/such/file"})


def test_settings_cannot_be_changed():
    settings = Settings.from_environment({})
    with pytest.raises(AttributeError):
        settings.store = "x"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://localhost:6379/0", "redis://localhost:6379/0"),
        ("redis://:pw@localhost:6379", "redis://***@localhost:6379"),
        ("file:relative/folder", "file:relative/folder"),
        ("/plain/folder", "/plain/folder"),
        ("redis://h:notaport/0", "<not a URL>"),
    ],
)
def test_urls_are_shown_without_what_is_secret(url, shown):
    assert masked_url(url) == shown
