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
  network = { zones = ["eu-central-1a", "eu-central-1b"] }
}

run "nothing_has_a_public_address" {
  command = plan

  assert {
    condition     = alltrue([for subnet in merge(aws_subnet.private, aws_subnet.public) : !subnet.map_public_ip_on_launch])
    error_message = "a subnet gives out public addresses"
  }
  assert {
    condition     = length(aws_nat_gateway.this) == 1 && length(aws_route.private) == 2
    error_message = "one gateway serves both zones"
  }
}

run "a_gateway_a_zone" {
  command = plan
  variables {
    network = { zones = ["eu-central-1a", "eu-central-1b", "eu-central-1c"], egress = "nat-per-zone" }
  }

  assert {
    condition     = length(aws_nat_gateway.this) == 3
    error_message = "three zones, three gateways"
  }
}

run "no_way_out" {
  command = plan
  variables {
    network = { zones = ["eu-central-1a", "eu-central-1b"], egress = "none" }
  }

  assert {
    condition     = length(aws_nat_gateway.this) == 0 && length(aws_internet_gateway.this) == 0 && length(aws_route.private) == 0
    error_message = "nothing leaves"
  }
}

run "one_zone_is_refused" {
  command         = plan
  expect_failures = [var.network]
  variables {
    network = { zones = ["eu-central-1a"] }
  }
}

run "a_small_range_is_refused" {
  command         = plan
  expect_failures = [var.network]
  variables {
    network = { zones = ["eu-central-1a", "eu-central-1b"], cidr = "10.0.0.0/26" }
  }
}
