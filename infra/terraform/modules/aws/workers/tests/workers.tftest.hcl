mock_provider "aws" {
  mock_data "aws_region" {
    defaults = { name = "eu-central-1" }
  }
  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }
  mock_data "aws_caller_identity" {
    defaults = { account_id = "123456789012" }
  }
}

variables {
  name    = "mst-test"
  network = { vpc_id = "vpc-1", cidr = "10.20.0.0/16", subnet_ids = ["subnet-1", "subnet-2"] }
  store   = { bucket = "mst-r", arn = "arn:aws:s3:::mst-r", prefix = "mst", uri = "s3://mst-r/mst" }
  secrets = {
    fleet_key   = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:mst-test/fleet-key"
    signers     = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:mst-test/signers"
    broker_url  = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:mst-test/broker-url"
    kms_key_arn = "arn:aws:kms:eu-central-1:123456789012:key/1"
  }
  image = "123456789012.dkr.ecr.eu-central-1.amazonaws.com/mst@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
  fleet = { version = "0.1.0", max = 20, class = "big" }
}

run "machines_are_closed" {
  command = plan

  assert {
    condition = alltrue([
      for template in [aws_launch_template.worker, aws_launch_template.scaler] :
      template.metadata_options[0].http_tokens == "required"
      && template.metadata_options[0].http_put_response_hop_limit == 1
      && template.network_interfaces[0].associate_public_ip_address == "false"
      && template.block_device_mappings[0].ebs[0].encrypted == "true"
    ])
    error_message = "IMDSv2 only, no public address, encrypted disks"
  }
  assert {
    condition     = length(regexall("read_box \"arn:", base64decode(aws_launch_template.worker.user_data))) == 3
    error_message = "keys and the broker's URL are read from their boxes at boot"
  }
  assert {
    condition     = !strcontains(base64decode(aws_launch_template.scaler.user_data), "fleet.key\"")
    error_message = "the scaler has no use for the fleet's private key"
  }
}

run "it_scales_from_zero_and_never_in_by_a_metric" {
  command = plan

  assert {
    condition     = aws_autoscaling_group.workers.min_size == 0 && aws_autoscaling_group.workers.protect_from_scale_in
    error_message = "from zero, protected"
  }
  assert {
    condition     = aws_autoscaling_policy.backlog.target_tracking_configuration[0].disable_scale_in
    error_message = "a metric would end machines that hold a shard"
  }
  assert {
    condition     = output.workers.queues == ["mst.collect.big.0.1.0", "mst.grade.big.0.1.0"]
    error_message = "other queues than the workers serve"
  }
}

run "with_a_role_for_shards_workers_reach_no_store_by_themselves" {
  command = plan
  variables {
    store = {
      bucket      = "mst-r"
      arn         = "arn:aws:s3:::mst-r"
      prefix      = "mst"
      uri         = "s3://mst-r/mst"
      kms_key_arn = "arn:aws:kms:eu-central-1:123456789012:key/1"
      sessions    = true
    }
  }

  assert {
    condition     = toset(keys(aws_iam_role_policy.worker)) == toset(["secrets", "own-machine", "logs", "image"])
    error_message = "workers have rights of their own in the store"
  }
  assert {
    condition     = contains(keys(aws_iam_role_policy.scaler), "store") && contains(keys(aws_iam_role_policy.scaler), "store-key")
    error_message = "nobody is left who can look for lost shards"
  }
}

run "a_tag_is_no_image" {
  command         = plan
  expect_failures = [var.image]
  variables {
    image = "123456789012.dkr.ecr.eu-central-1.amazonaws.com/mst:latest"
  }
}

run "more_at_least_than_at_most" {
  command         = plan
  expect_failures = [var.fleet]
  variables {
    fleet = { version = "0.1.0", min = 5, max = 2 }
  }
}

run "a_hook_waits_two_hours_at_most" {
  command         = plan
  expect_failures = [var.fleet]
  variables {
    fleet = { version = "0.1.0", drain_minutes = 180 }
  }
}
