"""Terraform against real tools: the AWS provider with mocks, an apply against a simulated AWS, and checkov."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest

from mst.testing.servers import free_ports, stop

ROOT = Path(__file__).parents[2] / "infra" / "terraform"
MIRROR = Path(os.environ.get("MST_TF_MIRROR") or Path("/", "opt", "tf-plugins"))
"""A filesystem mirror of providers."""
MODULES = ["network", "broker", "store", "secrets", "workers", "monitoring"]
IMAGE = f"123456789012.dkr.ecr.eu-central-1.amazonaws.com/mst@sha256:{'a' * 64}"
CANARIES = ("password", "BEGIN", "AGE-SECRET-KEY")


def missing(what):
    reason = f"NOT CHECKED: Terraform's files, since {what}"
    sys.stderr.write(f"{reason}\n")
    pytest.skip(reason)


@pytest.fixture(scope="module")
def terraform(tmp_path_factory):
    """Runs Terraform in a copy of our files; providers come from a folder, nothing from the internet."""
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

    def run(place, *arguments, timeout=280, **more):
        return subprocess.run(
            [program, *arguments],
            cwd=folder / "infra" / "terraform" / place,
            env=environ | more,
            check=False,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    run.folder = folder / "infra" / "terraform"
    return run


def shown(done):
    return done.stdout[-3000:] + done.stderr[-3000:]


def test_files_are_formatted(terraform):
    done = terraform(".", "fmt", "-check", "-recursive", "-list=true")
    assert done.returncode == 0, shown(done)


@pytest.mark.slow
@pytest.mark.parametrize("example", ["aws-minimal", "aws-production"])
def test_examples_are_valid(terraform, example):
    done = terraform(f"examples/{example}", "init", "-input=false", "-no-color")
    assert done.returncode == 0, shown(done)
    done = terraform(f"examples/{example}", "validate", "-no-color")
    assert done.returncode == 0, shown(done)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("module", MODULES)
def test_modules_keep_their_promises(terraform, module):
    done = terraform(f"modules/aws/{module}", "init", "-input=false", "-no-color")
    assert done.returncode == 0, shown(done)
    done = terraform(f"modules/aws/{module}", "test", "-no-color")
    assert done.returncode == 0, shown(done)
    assert re.search(r"Success! [1-9]\d* passed, 0 failed", done.stdout), shown(done)


@pytest.fixture(scope="module")
def simulated_aws(tmp_path_factory):
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
    url, deadline = f"http://127.0.0.1:{port}", time.monotonic() + 60
    try:
        while True:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            try:
                urllib.request.urlopen(f"{url}/moto-api/", timeout=2).close()
                break
            except OSError:
                threading.Event().wait(0.1)
        yield url
    finally:
        stop(process)


# The simulation has no parameter groups and no user groups, so the broker's group itself stays out of the apply.
SIMULATED = [
    *("module.network", "module.store", "module.secrets", "module.workers"),
    *("module.broker.aws_elasticache_subnet_group.this", "module.broker.aws_elasticache_user.fleet"),
    *(
        "module.broker.aws_vpc_security_group_ingress_rule.clients",
        "module.monitoring.aws_cloudwatch_metric_alarm.fleet",
    ),
    "module.monitoring.aws_cloudwatch_dashboard.this",
]


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.timeout(400)
def test_the_minimal_example_is_applied_and_what_came_of_it_is_closed(terraform, simulated_aws, monkeypatch):
    place = "examples/aws-minimal"
    override = 'provider "aws" {\n  s3_use_path_style = true\n  skip_metadata_api_check = true\n}\n'
    (terraform.folder / place / "simulated_override.tf").write_text(override)
    aws = {"AWS_ENDPOINT_URL": simulated_aws, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    given = {"bucket": "mst-test-results", "image": IMAGE, "mst_version": "0.1.0", "machine_image": "ami-12c6146b"}
    done = terraform(place, "init", "-input=false", "-no-color")
    assert done.returncode == 0, shown(done)
    done = terraform(
        place,
        *("apply", "-auto-approve", "-input=false", "-no-color"),
        *(f"-var={name}={value}" for name, value in given.items()),
        *(f"-target={one}" for one in SIMULATED),
        timeout=380,
        **aws,
    )
    assert done.returncode == 0, shown(done)
    for name, value in aws.items():
        monkeypatch.setenv(name, value)
    look_at_machines()
    look_at_bucket()
    state = (terraform.folder / place / "terraform.tfstate").read_text()
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
