"""`s3://BUCKET/PREFIX`: Amazon S3 and servers that keep its conditional writes.

Settings come from the URI (`endpoint_url`, `region`, `profile`, `addressing=path|virtual`, `server_side_encryption`,
`sse_kms_key_id`) and else from the standard AWS ones: environment, shared credentials file, then the machine's role.
Secrets never stand in a URI.
"""

from __future__ import annotations

import configparser
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mst.errors import UsageError
from mst.store.address import check_endpoint, read_address
from mst.store.contract import Store

if TYPE_CHECKING:
    from obstore.store import S3Config

SETTINGS = ("addressing", "endpoint_url", "profile", "region", "server_side_encryption", "sse_kms_key_id")
DEFAULT_REGION = "us-east-1"
_ROLE_VARIABLES = (
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
_HINT = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (or profile=NAME in the URI) and check that the policy allows it"
)


def open_s3(uri: str, environ: Mapping[str, str]) -> Store:
    """Open a bucket's prefix. Sends nothing yet.

    Args:
        uri: `s3://BUCKET/PREFIX?setting=value`.
        environ: where AWS settings are looked up.

    Raises:
        UsageError: a URI or a setting that is wrong, a profile that can't be used, or obstore is not installed.
    """
    address = read_address(uri, SETTINGS)
    settings = address.settings
    if settings.get("addressing", "path") not in ("path", "virtual"):
        raise UsageError("s3: addressing is path or virtual")
    try:
        from obstore.store import S3Store  # noqa: PLC0415 - optional and heavy

        from mst.store import objects  # noqa: PLC0415 - needs obstore
    except ImportError as error:
        raise UsageError("s3: stores need the extra s3: pip install 'mst[s3]'") from error
    endpoint = settings.get("endpoint_url") or environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL")
    config = _config(settings, environ, endpoint)
    # Not every server compares what arrives with the digest that is signed; those that we know compare this one.
    config["checksum_algorithm"] = "sha256"

    def backend(silence_s: float) -> S3Store:
        return S3Store(
            address.bucket,
            prefix=address.prefix or None,
            config=config,
            client_options=objects.client_options(endpoint, silence_s=silence_s),
            retry_config=objects.NO_RETRIES,
        )

    return objects.ObstoreStore(
        backend(objects.SILENCE_S),
        bulk=backend(objects.BULK_SILENCE_S),
        uri=f"s3://{address.bucket}/{address.prefix}",
        hint=_HINT,
    )


def _config(settings: Mapping[str, str], environ: Mapping[str, str], endpoint: str | None) -> S3Config:
    profile, keys = _credentials(settings.get("profile") or environ.get("AWS_PROFILE"), environ)
    region = settings.get("region") or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
    config: S3Config = {"region": region or profile.get("region") or DEFAULT_REGION}
    if endpoint is not None:
        config["endpoint"] = check_endpoint(endpoint)
    if settings.get("addressing") == "virtual":
        config["virtual_hosted_style_request"] = True
    if "server_side_encryption" in settings:
        config["server_side_encryption"] = settings["server_side_encryption"]
    if "sse_kms_key_id" in settings:
        config["sse_kms_key_id"] = settings["sse_kms_key_id"]
    if keys is not None:
        config["access_key_id"], config["secret_access_key"] = keys[0], keys[1]
        if keys[2]:
            config["session_token"] = keys[2]
    return config


Keys = tuple[str, str, str | None]


def _credentials(profile: str | None, environ: Mapping[str, str]) -> tuple[Mapping[str, str], Keys | None]:
    """The profile's settings, and keys if they are given rather than fetched from the machine's role."""
    key, secret = environ.get("AWS_ACCESS_KEY_ID"), environ.get("AWS_SECRET_ACCESS_KEY")
    if profile is None and key and secret:
        return {}, (key, secret, environ.get("AWS_SESSION_TOKEN"))
    if profile is None and any(name in environ for name in _ROLE_VARIABLES):
        return {}, None
    found = {**_section("config", profile, environ), **_section("credentials", profile, environ)}
    if found.get("aws_access_key_id") and found.get("aws_secret_access_key"):
        return found, (found["aws_access_key_id"], found["aws_secret_access_key"], found.get("aws_session_token"))
    if profile is not None:
        raise UsageError(
            f"the AWS profile {profile!r} has no access key of its own; for single sign-on or a role, set keys in the"
            f" environment: aws configure export-credentials --profile {profile} --format env"
        )
    return found, None


def _section(kind: Literal["config", "credentials"], profile: str | None, environ: Mapping[str, str]) -> dict[str, str]:
    """A profile's entries in one of the two shared AWS files; empty when there is no file or no such profile."""
    variable = "AWS_CONFIG_FILE" if kind == "config" else "AWS_SHARED_CREDENTIALS_FILE"
    path = Path(environ.get(variable) or Path(environ.get("HOME", "/")) / ".aws" / kind)
    # Keys may hold a percent sign or stand under a name given twice; errors must not quote the file.
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError, OSError):
        raise UsageError(f"the AWS {kind} file {path} cannot be read") from None
    name = profile or "default"
    section = f"profile {name}" if kind == "config" and name != "default" else name
    return dict(parser[section]) if parser.has_section(section) else {}
