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

run "nobody_takes_on_anything_unless_named" {
  command = plan

  assert {
    condition     = length(aws_iam_role.shard) == 0 && output.store.shard_role_arn == null
    error_message = "there is a role that nobody asked for"
  }
}

run "named_coordinators_take_on_the_role_of_shards" {
  variables {
    store = {
      bucket       = "mst-test-results"
      kms_key_arn  = "arn:aws:kms:eu-central-1:123456789012:key/1"
      coordinators = ["arn:aws:iam::123456789012:role/evals"]
    }
  }

  assert {
    condition     = jsondecode(aws_iam_role.shard[0].assume_role_policy).Statement[0].Principal.AWS == ["arn:aws:iam::123456789012:role/evals"]
    error_message = "others than the named ones may take it on"
  }
  assert {
    condition = toset(flatten([for one in jsondecode(aws_iam_role_policy.shard[0].policy).Statement : one.Action])) == toset([
      "s3:GetObject", "s3:ListBucket", "s3:PutObject", "s3:AbortMultipartUpload", "kms:Decrypt", "kms:GenerateDataKey"
    ])
    error_message = "a shard may do other things than a worker"
  }
  assert {
    condition     = one([for one in jsondecode(aws_iam_policy.people["coordinator"].policy).Statement : one.Resource if one.Sid == "TakeOnTheRoleOfShards"]) == output.store.shard_role_arn
    error_message = "coordinators can't take on the role"
  }
  assert {
    condition     = !contains(flatten([for one in jsondecode(aws_iam_policy.people["keeper"].policy).Statement : one.Action]), "sts:AssumeRole")
    error_message = "a keeper has no use for the role"
  }
}

run "a_whole_account_is_no_coordinator" {
  command         = plan
  expect_failures = [var.store]
  variables {
    store = { bucket = "mst-test-results", coordinators = ["arn:aws:iam::123456789012:root"] }
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
