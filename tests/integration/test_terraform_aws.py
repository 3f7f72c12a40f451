"""Terraform against real tools: the AWS provider with mocks, an apply against a simulated AWS, and checkov."""

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mst.store.layout import RunKeys
from mst.store.session import shard_session
from mst.testing.commandline import until
from mst.testing.servers import free_ports, stop

ROOT = Path(__file__).parents[2] / "infra" / "terraform"
MIRROR = Path(os.environ.get("MST_TF_MIRROR") or Path("/", "opt", "tf-plugins"))
"""A filesystem mirror of providers."""
TESTED = sorted(path.parent.parent for path in ROOT.glob("*/**/tests/*.tftest.hcl"))
IMAGE = f"123456789012.dkr.ecr.eu-central-1.amazonaws.com/mst@sha256:{'a' * 64}"
COORDINATOR = "arn:aws:iam::123456789012:role/evals"
CANARIES = ("password", "BEGIN", "AGE-SECRET-KEY")
MINIMAL = "examples/aws-minimal"
# The simulation has no parameter groups and no user groups, so the broker's group itself stays out of the apply; and
# the rules of old dispatches have a long test of their own.
SIMULATED = [
    *("module.network", "module.secrets", "module.workers"),
    *(f"module.store.aws_s3_bucket_{part}.this" for part in ("policy", "ownership_controls", "versioning")),
    "module.store.aws_s3_bucket_server_side_encryption_configuration.this",
    *("module.store.aws_iam_role_policy.shard", "module.store.aws_iam_policy.people"),
    *("module.broker.aws_elasticache_subnet_group.this", "module.broker.aws_elasticache_user.fleet"),
    "module.broker.aws_vpc_security_group_ingress_rule.clients",
    "module.monitoring.aws_cloudwatch_metric_alarm.fleet",
    "module.monitoring.aws_cloudwatch_dashboard.this",
]


def missing(what):
    reason = f"NOT CHECKED: Terraform's files, since {what}"
    sys.stderr.write(f"{reason}\n")
    pytest.skip(reason)


@pytest.fixture(scope="module")
def terraform(tmp_path_factory):
    """Starts Terraform in a copy of our files; providers come from a folder, nothing from the internet."""
    program = shutil.which("terraform")
    if program is None:
        missing("no terraform program is on PATH")
    if not any(MIRROR.glob("*/hashicorp/aws")):
        missing(f"the AWS provider is not in {MIRROR}")
    folder = tmp_path_factory.mktemp("terraform")
    shutil.copytree(ROOT.parent, folder / "infra", ignore=shutil.ignore_patterns(".terraform*", "*.tfstate*"))
    config = folder / "terraformrc"
    config.write_text(f'provider_installation {{\n  filesystem_mirror {{ path = "{MIRROR}" }}\n}}\n')
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "TF_"))}
    environ |= {"TF_CLI_CONFIG_FILE": str(config), "CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1"}

    def start(place, *arguments, **more):
        said = (folder / "said").with_suffix(f".{len(list(folder.glob('said.*')))}")
        with said.open("wb") as sink:
            process = subprocess.Popen(
                [program, *arguments],
                cwd=folder / "infra" / "terraform" / place,
                env=environ | more,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                start_new_session=True,
            )
        return process, said

    start.folder = folder / "infra" / "terraform"
    return start


def succeeded(started, within_s=280):
    """What a command printed; its failure fails the test."""
    process, said = started
    try:
        process.wait(timeout=within_s)
    finally:
        stop(process)
    assert process.returncode == 0, said.read_text()[-6000:]
    return said.read_text()


@pytest.fixture(scope="module")
def provider(terraform, tmp_path_factory):
    """The environment in which Terraform uses one provider that runs already.

    One of its own, 700 MB to check and start, would be two thirds of what a command takes. These tests mock all that it
    does; they need what it knows of resources.
    """
    (binary,) = MIRROR.glob("*/hashicorp/aws/*/*/terraform-provider-aws_*")
    said = tmp_path_factory.mktemp("provider") / "said"
    with said.open("wb") as sink:
        process = subprocess.Popen([binary, "-debug"], stdout=sink, stderr=sink, start_new_session=True)

    def attached():
        assert process.poll() is None, said.read_text()
        return re.search(r"TF_REATTACH_PROVIDERS='(.+)'\s", said.read_text())

    try:
        until(attached, "the provider listens", within_s=90)
        yield {"TF_REATTACH_PROVIDERS": attached()[1]}
    finally:
        stop(process)


@pytest.fixture(scope="module")
def aws(tmp_path_factory):
    """The environment of programs that are to talk to a simulated AWS."""
    program = Path(sys.executable).with_name("moto_server")
    if not program.exists():
        missing("moto_server is not installed: pip install 'moto[server]'")
    (port,) = free_ports(1)
    log = tmp_path_factory.mktemp("moto") / "log"
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [program, "-H", "127.0.0.1", "-p", str(port)],
            stdout=sink,
            stderr=sink,
            start_new_session=True,
            env=os.environ | {"MOTO_IAM_LOAD_MANAGED_POLICIES": "true"},
        )
    url = f"http://127.0.0.1:{port}"

    def answers():
        assert process.poll() is None, log.read_text()
        try:
            urllib.request.urlopen(f"{url}/moto-api/", timeout=2).close()
        except OSError:
            return False
        return True

    try:
        until(answers, "the simulated AWS answers", within_s=60)
        yield {"AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    finally:
        stop(process)


@pytest.fixture(scope="module")
def apply(terraform, aws):
    """Starts to apply a part of the minimal example."""
    override = 'provider "aws" {\n  s3_use_path_style = true\n  skip_metadata_api_check = true\n}\n'
    (terraform.folder / MINIMAL / "simulated_override.tf").write_text(override)
    succeeded(terraform(MINIMAL, "init", "-input=false", "-no-color"))
    given = {"bucket": "mst-test-results", "image": IMAGE, "mst_version": "0.1.0", "machine_image": "ami-12c6146b"}
    given["coordinators"] = json.dumps([COORDINATOR])

    def start(targets):
        return terraform(
            MINIMAL,
            *("apply", "-auto-approve", "-input=false", "-no-color", "-parallelism=30"),
            *(f"-var={name}={value}" for name, value in given.items()),
            *(f"-target={one}" for one in targets),
            **aws,
        )

    return start


@pytest.fixture(scope="module")
def applying(apply):
    """The minimal example on its way: half of that is waiting, in which other tests run."""
    started = apply(SIMULATED)
    yield started
    stop(started[0])


def test_files_are_formatted(terraform):
    succeeded(terraform(".", "fmt", "-check", "-recursive", "-list=true"))


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("applying")
@pytest.mark.parametrize("folder", TESTED, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_and_examples_keep_their_promises(terraform, provider, folder):
    place = folder.relative_to(ROOT)
    if place.parts[0] == "examples":
        succeeded(terraform(place, "init", "-input=false", "-no-color", **provider))
    said = succeeded(terraform(place, "test", "-no-color", **provider))
    assert re.search(r"Success! [1-9]\d* passed, 0 failed", said), said


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_checkov_finds_nothing_that_is_not_explained():
    program = os.environ.get("MST_CHECKOV") or shutil.which("checkov")
    if program is None:
        missing("checkov is neither on PATH nor named by MST_CHECKOV (it needs a virtual environment of its own)")
    done = subprocess.run(
        [program, "-d", str(ROOT), "--framework", "terraform", "--skip-download", "-o", "json"],
        check=False,
        capture_output=True,
        text=True,
        timeout=280,
    )
    found = json.loads(done.stdout)
    failed = [f"{one['check_id']} {one['resource']}" for one in found["results"]["failed_checks"]]
    assert failed == []
    assert found["summary"]["passed"] > 200
    reasons = {
        one["check_id"]: one["check_result"].get("suppress_comment", "") for one in found["results"]["skipped_checks"]
    }
    assert [check for check, reason in reasons.items() if len(reason) < 10] == []


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.timeout(400)
def test_the_minimal_example_is_applied_and_what_came_of_it_is_closed(terraform, applying, aws, monkeypatch):
    succeeded(applying, within_s=380)
    for name, value in aws.items():
        monkeypatch.setenv(name, value)
    look_at_machines()
    look_at_bucket()
    state = (terraform.folder / MINIMAL / "terraform.tfstate").read_text()
    outputs = {name: one["value"] for name, one in json.loads(state)["outputs"].items()}
    look_at_rights(outputs, aws)
    values = [one for resource in json.loads(state)["resources"] for one in resource["instances"]]
    assert not any(one["attributes"].get("passwords") or one["attributes"].get("secret_string") for one in values)
    assert not any(canary in state for canary in CANARIES[1:])


def look_at_machines():
    import boto3

    ec2, groups = boto3.client("ec2", "eu-central-1"), boto3.client("autoscaling", "eu-central-1")
    templates = ec2.describe_launch_templates()["LaunchTemplates"]
    assert len(templates) == 2
    for template in templates:
        (version,) = ec2.describe_launch_template_versions(LaunchTemplateId=template["LaunchTemplateId"])[
            "LaunchTemplateVersions"
        ]
        data = version["LaunchTemplateData"]
        assert data["MetadataOptions"]["HttpTokens"] == "required"
        assert data["NetworkInterfaces"][0]["AssociatePublicIpAddress"] is False
        assert data["BlockDeviceMappings"][0]["Ebs"]["Encrypted"] is True
    (workers,) = groups.describe_auto_scaling_groups(AutoScalingGroupNames=["mst-minimal-workers"])["AutoScalingGroups"]
    assert (workers["MinSize"], workers["MaxSize"]) == (0, 4)
    assert workers["NewInstancesProtectedFromScaleIn"] is True
    hooks = groups.describe_lifecycle_hooks(AutoScalingGroupName="mst-minimal-workers")["LifecycleHooks"]
    assert [hook["LifecycleTransition"] for hook in hooks] == ["autoscaling:EC2_INSTANCE_TERMINATING"]
    subnets = ec2.describe_subnets(Filters=[{"Name": "tag:mst:pool", "Values": ["mst-minimal"]}])["Subnets"]
    assert [subnet["MapPublicIpOnLaunch"] for subnet in subnets] == [False] * 3


def look_at_bucket():
    import boto3

    s3 = boto3.client("s3", "eu-central-1")
    assert s3.get_bucket_versioning(Bucket="mst-test-results")["Status"] == "Enabled"
    blocked = s3.get_public_access_block(Bucket="mst-test-results")["PublicAccessBlockConfiguration"]
    assert all(blocked.values())
    policy = json.loads(s3.get_bucket_policy(Bucket="mst-test-results")["Policy"])
    assert {one["Sid"] for one in policy["Statement"]} == {"TlsOnly", "WhatIsCreatedOnce", "WhatNobodyRemoves"}


def look_at_rights(outputs, aws):
    """Workers have none in the store; a coordinator makes them, with the role that the example gives out."""
    import boto3

    iam, role_arn = boto3.client("iam", "eu-central-1"), outputs["store_role"]
    role = iam.get_role(RoleName=role_arn.rpartition("/")[2])["Role"]
    trusted = [one["Principal"] for one in role["AssumeRolePolicyDocument"]["Statement"]]
    assert trusted == [{"AWS": [COORDINATOR]}]
    worker = outputs["workers"]["role_arn"].rpartition("/")[2]
    assert set(iam.list_role_policies(RoleName=worker)["PolicyNames"]) == {"secrets", "own-machine", "logs", "image"}
    assert set(outputs["policies"]) == {"coordinator", "keeper"}
    shard = RunKeys("quiz", "20260102T030405Z-abc123").dispatch("d1").shard(0)
    environ = {**aws, "AWS_ENDPOINT_URL_STS": aws["AWS_ENDPOINT_URL"], "AWS_REGION": "eu-central-1"}
    uri = outputs["store_uri"]
    values, ends = shard_session(uri, shard, role_arn=role_arn, duration_s=900, environ=environ)
    assert values["AWS_SESSION_TOKEN"]
    assert ends > datetime.now(UTC)


@pytest.mark.long
@pytest.mark.server
@pytest.mark.timeout(400)
def test_the_rules_that_remove_old_dispatches_are_applied(apply, aws, monkeypatch):
    """Long since the provider looks ten times, five seconds apart, whether all of Amazon knows of them."""
    import boto3

    succeeded(apply(["module.store.aws_s3_bucket_lifecycle_configuration.this"]), within_s=380)
    for name, value in aws.items():
        monkeypatch.setenv(name, value)
    rules = boto3.client("s3", "eu-central-1").get_bucket_lifecycle_configuration(Bucket="mst-test-results")["Rules"]
    assert {rule["ID"] for rule in rules} == {"broken-uploads", "old-versions"}
