"""What the scanner of layers finds, wherever it lies, and what it must not take for a secret."""

import io
import tarfile

import pytest

from mst.runners import image_scan
from mst.runners.image_scan import PATTERNS, found_in, scan_image

AGE_KEY = "AGE-SECRET-" + "KEY-1" + "Q" * 58
VALUE = "hunter2-hunter2"


def tar_of(files):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return data.getvalue()


def image_with(tmp_path, *layers, config=b"{}"):
    path = tmp_path / "image.tar"
    files = {"manifest.json": b"[]", "config.json": config}
    files |= {f"{number}/layer.tar": tar_of(files) for number, files in enumerate(layers)}
    path.write_bytes(tar_of(files))
    return path


def test_an_empty_image_holds_nothing(tmp_path):
    assert scan_image(image_with(tmp_path, {"etc/passwd": b"root:x:0:0"})) == []


def test_a_key_in_any_layer_is_found_and_not_shown(tmp_path):
    path = image_with(tmp_path, {"root/x": AGE_KEY.encode()}, {"root/.wh.x": b""})
    assert scan_image(path) == ["root/x: an age key"]


def test_a_value_in_the_images_own_description_is_found(tmp_path):
    path = image_with(tmp_path, {}, config=b'{"Env": ["PASSWORD=' + VALUE.encode() + b'"]}')
    assert scan_image(path, secret_values=[VALUE]) == ["config.json: a value that is secret here"]


def test_made_up_keys_in_libraries_are_no_finding_but_values_are(tmp_path):
    place = "usr/lib/mst/lib/python3.11/site-packages/botocore/data/x.json"
    path = image_with(tmp_path, {place: AGE_KEY.encode() + VALUE.encode()})
    assert scan_image(path) == []
    assert scan_image(path, secret_values=[VALUE]) == [f"{place}: a value that is secret here"]


@pytest.mark.parametrize("before", [0, 5, 1000, 4095, 4096])
def test_nothing_is_missed_where_two_pieces_meet(monkeypatch, before):
    monkeypatch.setattr(image_scan, "CHUNK_BYTES", 4096)
    data = b"x" * (4096 - 40) + b" " * before + b" " + AGE_KEY.encode() + b" " * 9000
    assert found_in(io.BytesIO(data)) == ["an age key"]


def test_short_values_are_not_looked_for(tmp_path):
    assert scan_image(image_with(tmp_path, {"x": b"abc"}), secret_values=["abc"]) == []


# Put together here, so that no text of this file looks like a key.
KEYS = {
    "a private key": "-----BEGIN RSA " + "PRIVATE KEY-----\n" + "A" * 64,
    "an age key": "AGE-SECRET-" + "KEY-1" + "Q" * 58,
    "a signing key of mst": '"private' + 'Key": "' + "A" * 43 + '="',
    "an AWS key": "AK" + "IA" + "Z" * 16,
    "a GitHub token": "gh" + "s_" + "a" * 36,
    "a model provider's key": "sk-" + "proj-" + "a" * 40,
    "a broker URL with its password": "redis" + "s://me:" + "p" * 16 + "@host",
}


@pytest.mark.parametrize("what", PATTERNS)
def test_every_kind_of_key_is_found(what):
    assert found_in(io.BytesIO(b"x " + KEYS[what].encode() + b" y")) == [what]
