locals {
  tags = merge(var.tags, { "mst:pool" = var.name })
}

resource "aws_elasticache_subnet_group" "this" {
  name       = "${var.name}-broker"
  subnet_ids = var.network.subnet_ids
  tags       = local.tags
}

resource "aws_elasticache_replication_group" "this" {
  #checkov:skip=CKV_AWS_31:an ACL user with a password is asked for, through the user group; no shared token
  #checkov:skip=CKV_AWS_191:the key is the operator's choice (kms_key_arn); secrets in the broker are sealed by mst itself
  #checkov:skip=CKV2_AWS_50:on whenever there is a replica; one node has nothing to fail over to
  replication_group_id = "${var.name}-broker"
  description          = "mst: queues, ledger and sealed grants"

  engine               = "valkey"
  engine_version       = var.broker.engine_version
  node_type            = var.broker.node_type
  port                 = 6379
  parameter_group_name = aws_elasticache_parameter_group.this.name

  num_cache_clusters         = 1 + var.broker.replicas
  automatic_failover_enabled = var.broker.replicas > 0
  multi_az_enabled           = var.broker.replicas > 0

  subnet_group_name  = aws_elasticache_subnet_group.this.name
  security_group_ids = [aws_security_group.this.id]
  user_group_ids     = [aws_elasticache_user_group.this.user_group_id]

  transit_encryption_enabled = true
  at_rest_encryption_enabled = true
  kms_key_id                 = var.broker.kms_key_arn

  snapshot_retention_limit   = var.broker.snapshot_days
  maintenance_window         = var.broker.maintenance_window
  auto_minor_version_upgrade = true
  apply_immediately          = false

  tags = local.tags
}
