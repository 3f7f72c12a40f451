resource "aws_security_group" "this" {
  #checkov:skip=CKV2_AWS_5:attached to the replication group
  name        = "${var.name}-broker"
  description = "Valkey from the fleet's machines only"
  vpc_id      = var.network.vpc_id
  tags        = merge(local.tags, { Name = "${var.name}-broker" })
}

resource "aws_vpc_security_group_ingress_rule" "clients" {
  for_each = var.clients

  security_group_id            = aws_security_group.this.id
  description                  = "Valkey from ${each.key}"
  referenced_security_group_id = each.value
  ip_protocol                  = "tcp"
  from_port                    = 6379
  to_port                      = 6379
}
