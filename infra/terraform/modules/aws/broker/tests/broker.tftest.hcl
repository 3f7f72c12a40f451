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
  clients = { workers = "sg-1" }
}

run "it_never_drops_queued_shards" {
  command = plan

  assert {
    condition     = one([for entry in aws_elasticache_parameter_group.this.parameter : entry.value if entry.name == "maxmemory-policy"]) == "noeviction"
    error_message = "maxmemory-policy is not noeviction"
  }
  assert {
    condition     = aws_elasticache_replication_group.this.transit_encryption_enabled && tobool(aws_elasticache_replication_group.this.at_rest_encryption_enabled)
    error_message = "not encrypted"
  }
  assert {
    condition     = aws_elasticache_replication_group.this.automatic_failover_enabled && aws_elasticache_replication_group.this.multi_az_enabled
    error_message = "a replica that does not take over is of no use"
  }
  assert {
    condition     = aws_elasticache_replication_group.this.auth_token == null && aws_elasticache_user.fleet.passwords == null
    error_message = "Terraform knows a password"
  }
  assert {
    condition     = startswith(aws_elasticache_user.fleet.access_string, "off ")
    error_message = "the user may log in before it has a password"
  }
}

run "one_node_has_nothing_to_fail_over_to" {
  command = plan
  variables {
    broker = { replicas = 0 }
  }

  assert {
    condition     = aws_elasticache_replication_group.this.num_cache_clusters == 1 && !aws_elasticache_replication_group.this.automatic_failover_enabled
    error_message = "failover without a replica is refused by AWS"
  }
}

run "an_old_engine_is_refused" {
  command         = plan
  expect_failures = [var.broker]
  variables {
    broker = { engine_version = "5.0" }
  }
}
