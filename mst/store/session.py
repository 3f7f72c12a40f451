"""Credentials for one shard: a session of Amazon's token service that its policy narrows to what the shard needs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from mst.errors import StoreDenied, StoreUnavailable, UsageError
from mst.store.contract import Store
from mst.store.layout import ShardKeys
from mst.store.uri import open_store

POLICY_MAX_CHARS = 2048
"""More of a session's policy Amazon does not take."""
LEAST_S, MOST_S = 900, 12 * 3600
_OWN = frozenset({"AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"})


def shard_policy(uri: str, keys: ShardKeys) -> str:
    """The policy of a session for one shard, as compact JSON: `infra/policies/s3-shard.json.tftpl`, filled in.

    Args:
        uri: of the store, `s3://BUCKET/PREFIX`.
        keys: of the shard.

    Raises:
        UsageError: another kind of store, or keys so long that no session takes the policy.
    """
    parts = urlsplit(uri)
    if parts.scheme != "s3" or not parts.netloc:
        raise UsageError("sessions for one shard are for s3: stores")
    bucket = f"arn:aws:s3:::{parts.netloc}"
    folder = "/".join(part for part in (parts.path.strip("/"), keys.dispatch.folder) if part)
    dispatch, shard = f"{bucket}/{folder}", f"{bucket}/{folder}/shards/{keys.shard}"
    statements = [
        {
            "Sid": "ReadTheDispatch",
            "Effect": "Allow",
            "Action": "s3:GetObject",
            "Resource": [
                f"{dispatch}/dispatch.json",
                f"{dispatch}/closed.json",
                f"{dispatch}/bundles/*",
                f"{dispatch}/blobs/*",
                f"{shard}/*",
            ],
        },
        {
            "Sid": "ListTheShard",
            "Effect": "Allow",
            "Action": "s3:ListBucket",
            "Resource": bucket,
            "Condition": {"StringLike": {"s3:prefix": [f"{folder}/", f"{folder}/shards/{keys.shard}/*"]}},
        },
        {
            "Sid": "CreateResults",
            "Effect": "Allow",
            "Action": ["s3:PutObject", "s3:AbortMultipartUpload"],
            "Resource": [f"{shard}/attempts/*", f"{shard}/manifest.json"],
        },
        {
            # A session can do what its role can, too: the role names the key.
            "Sid": "KeyThatTheRoleMayUse",
            "Effect": "Allow",
            "Action": ["kms:Decrypt", "kms:GenerateDataKey"],
            "Resource": "*",
            "Condition": {"StringLike": {"kms:ViaService": "s3.*"}},
        },
    ]
    policy = json.dumps({"Version": "2012-10-17", "Statement": statements}, separators=(",", ":"))
    if len(policy) > POLICY_MAX_CHARS:
        raise UsageError(
            f"the policy of a session for {keys.folder} has {len(policy)} characters, {POLICY_MAX_CHARS} are taken;"
            " shorten the store's prefix or the eval's name"
        )
    return policy


def session_store(uri: str, values: Mapping[str, str], *, environ: Mapping[str, str], patience_s: float) -> Store:
    """Open a store with a session's credentials, and with none of this process's own.

    Args:
        uri: of the store, with its settings; a profile among them is left out.
        values: what `shard_session` gave.
        environ: this process's environment, for the region and the endpoint.
        patience_s: see `open_store`.
    """
    parts = urlsplit(uri)
    query = urlencode([(name, value) for name, value in parse_qsl(parts.query) if name != "profile"])
    kept = {name: value for name, value in environ.items() if name not in _OWN}
    return open_store(urlunsplit(parts._replace(query=query)), environ={**kept, **values}, patience_s=patience_s)


def shard_session(
    uri: str, keys: ShardKeys, *, role_arn: str, duration_s: int, environ: Mapping[str, str]
) -> tuple[dict[str, str], datetime]:
    """Take on a role for one shard. One request to the token service; a secret that is sealed before it travels.

    Args:
        uri: of the store.
        keys: of the shard.
        role_arn: a role that may do at least what the shard's policy says, and that this process may take on.
        duration_s: how long; 15 minutes to 12 hours, and no longer than the role allows.
        environ: where this process's own credentials, region and `AWS_ENDPOINT_URL_STS` are.

    Returns:
        Environment variables for `open_store(uri, environ=...)`, and when they expire.

    Raises:
        UsageError: see `shard_policy`; a duration that no session has; boto3 is not installed.
        StoreDenied: the role may not be taken on, or the credentials are wrong.
        StoreUnavailable: the token service does not answer.
    """
    if not LEAST_S <= duration_s <= MOST_S:
        raise UsageError(f"a session takes {LEAST_S} to {MOST_S} seconds, not {duration_s}")
    try:
        import boto3  # type: ignore[import-untyped]  # noqa: PLC0415 - untyped; optional and heavy
        from botocore.exceptions import (  # type: ignore[import-untyped]  # noqa: PLC0415 - as above
            BotoCoreError,
            ClientError,
        )
    except ImportError as error:
        raise UsageError("sessions for one shard need boto3: pip install 'mst[aws]'") from error
    region = dict(parse_qsl(urlsplit(uri).query)).get("region") or environ.get("AWS_REGION") or "us-east-1"
    client = boto3.client(
        "sts",
        region_name=region,
        endpoint_url=environ.get("AWS_ENDPOINT_URL_STS"),
        aws_access_key_id=environ.get("AWS_ACCESS_KEY_ID"),
        aws_secret_access_key=environ.get("AWS_SECRET_ACCESS_KEY"),
        aws_session_token=environ.get("AWS_SESSION_TOKEN"),
    )
    name = f"mst-{keys.dispatch.run.run_id}-{keys.dispatch.dispatch}-{keys.shard}"[:64]
    try:
        found = client.assume_role(
            RoleArn=role_arn, RoleSessionName=name, Policy=shard_policy(uri, keys), DurationSeconds=duration_s
        )["Credentials"]
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        raise StoreDenied(f"cannot take on {role_arn} for {keys.folder}: {code or 'refused'}") from error
    except BotoCoreError as error:
        raise StoreUnavailable(f"cannot take on {role_arn}: no answer ({type(error).__name__})") from error
    values = {
        "AWS_ACCESS_KEY_ID": str(found["AccessKeyId"]),
        "AWS_SECRET_ACCESS_KEY": str(found["SecretAccessKey"]),
        "AWS_SESSION_TOKEN": str(found["SessionToken"]),
    }
    return values, found["Expiration"]
