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
  name = "mst-test"
}

run "boxes_are_empty_and_have_a_key" {
  command = plan

  assert {
    condition     = toset(keys(aws_secretsmanager_secret.this)) == toset(["broker-url", "fleet-key", "signers"])
    error_message = "other boxes than workers need"
  }
  assert {
    condition     = aws_kms_key.this[0].enable_key_rotation
    error_message = "the key does not rotate"
  }
}

run "a_key_of_ones_own_makes_none" {
  command = plan
  variables {
    secrets = { kms_key_arn = "arn:aws:kms:eu-central-1:123456789012:key/1" }
  }

  assert {
    condition     = length(aws_kms_key.this) == 0
    error_message = "a key was made beside the given one"
  }
}

run "an_impossible_recovery_time_is_refused" {
  command         = plan
  expect_failures = [var.secrets]
  variables {
    secrets = { recovery_days = 3 }
  }
}
