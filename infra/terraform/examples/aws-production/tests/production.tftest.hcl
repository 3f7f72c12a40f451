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
  bucket       = "mst-test-results"
  image        = "123456789012.dkr.ecr.eu-central-1.amazonaws.com/mst@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
  mst_version  = "0.1.0"
  coordinators = ["arn:aws:iam::123456789012:role/evals"]
  emails       = ["fleet@example.com"]
}

run "it_can_be_planned_from_nothing" {
  command = plan

  assert {
    condition     = toset(keys(output.workers)) == toset(["collect", "grade"])
    error_message = "other pools than two"
  }
  assert {
    condition     = output.workers["grade"].queues == ["mst.grade.0.1.0"]
    error_message = "the pool for grading serves other queues"
  }
}

run "somebody_has_to_run_evals" {
  command         = plan
  expect_failures = [var.coordinators]
  variables {
    coordinators = []
  }
}

run "somebody_has_to_hear_of_alarms" {
  command         = plan
  expect_failures = [var.emails]
  variables {
    emails = []
  }
}
