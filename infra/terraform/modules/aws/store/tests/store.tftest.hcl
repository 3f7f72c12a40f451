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
  name  = "mst-test"
  store = { bucket = "mst-test-results", evals = ["fixers"] }
}

run "results_are_private_and_kept" {
  command = plan

  assert {
    condition     = aws_s3_bucket_public_access_block.this.block_public_policy && aws_s3_bucket_public_access_block.this.restrict_public_buckets
    error_message = "public access is possible"
  }
  assert {
    condition     = aws_s3_bucket_versioning.this.versioning_configuration[0].status == "Enabled"
    error_message = "no versions"
  }
  assert {
    condition     = !aws_s3_bucket.this.force_destroy
    error_message = "destroy takes results with it unless told otherwise"
  }
  assert {
    condition     = one([for rule in aws_s3_bucket_lifecycle_configuration.this.rule : rule.filter[0].prefix if rule.id == "dispatches-fixers"]) == "mst/fixers/dispatches/"
    error_message = "the rule meets other objects than dispatches"
  }
}

run "a_lifecycle_shorter_than_deadline_and_retention_is_refused" {
  command         = plan
  expect_failures = [var.store]
  variables {
    store = { bucket = "mst-test-results", dispatch_days = 8, deadline_h = 24, retention_days = 7 }
  }
}

run "one_day_longer_is_accepted" {
  command = plan
  variables {
    store = { bucket = "mst-test-results", dispatch_days = 9, deadline_h = 24, retention_days = 7 }
  }
}

run "a_key_of_ones_own" {
  command = plan
  variables {
    store = { bucket = "mst-test-results", kms_key_arn = "arn:aws:kms:eu-central-1:123456789012:key/1" }
  }

  assert {
    condition     = one(one(aws_s3_bucket_server_side_encryption_configuration.this.rule).apply_server_side_encryption_by_default).sse_algorithm == "aws:kms"
    error_message = "the key is not used"
  }
}
