# A full broker must refuse writes loudly: any other policy drops queued shards, and tells nobody.
resource "aws_elasticache_parameter_group" "this" {
  name        = "${var.name}-broker-${replace(var.broker.engine_version, ".", "-")}"
  family      = "valkey${split(".", var.broker.engine_version)[0]}"
  description = "mst: noeviction"

  parameter {
    name  = "maxmemory-policy"
    value = "noeviction"
  }

  tags = local.tags

  lifecycle {
    create_before_destroy = true
  }
}
