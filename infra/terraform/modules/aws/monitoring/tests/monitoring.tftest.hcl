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
  watch = { broker_id = "mst-test-broker", workers_group = "mst-test-workers" }
}

run "every_alarm_calls_somebody" {
  command = plan

  assert {
    condition     = length(aws_cloudwatch_metric_alarm.fleet) == 3 && length(aws_cloudwatch_metric_alarm.broker) == 8
    error_message = "three for the fleet, four for each of two nodes"
  }
  assert {
    condition     = aws_cloudwatch_metric_alarm.fleet["silent"].treat_missing_data == "breaching"
    error_message = "silence is the alarm"
  }
  assert {
    condition     = length(aws_budgets_budget.this) == 0
    error_message = "no cost alarm was asked for"
  }
}

run "a_cost_alarm_needs_somebody" {
  command         = plan
  expect_failures = [var.alarms]
  variables {
    alarms = { monthly_usd = 100 }
  }
}

run "a_cost_alarm" {
  command = plan
  variables {
    alarms = { monthly_usd = 100, emails = ["ops@example.org"] }
  }

  assert {
    condition     = aws_budgets_budget.this[0].limit_amount == "100"
    error_message = "another limit"
  }
}
