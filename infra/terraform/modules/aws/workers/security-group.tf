resource "aws_security_group" "this" {
  name        = "${var.name}-workers"
  description = "Workers: nothing comes in"
  vpc_id      = var.network.vpc_id
  tags        = merge(local.tags, { Name = "${var.name}-workers" })
}

# Judges call models anywhere; what may be reached is the network's and the shard runtime's business.
resource "aws_vpc_security_group_egress_rule" "https" {
  #checkov:skip=CKV_AWS_382:one port only, to any address since judges call models anywhere
  security_group_id = aws_security_group.this.id
  description       = "HTTPS to AWS and to models"
  cidr_ipv4         = "0.0.0.0/0"
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
}

resource "aws_vpc_security_group_egress_rule" "broker" {
  security_group_id = aws_security_group.this.id
  description       = "The broker"
  cidr_ipv4         = var.network.cidr
  ip_protocol       = "tcp"
  from_port         = 6379
  to_port           = 6379
}

resource "aws_vpc_security_group_egress_rule" "dns" {
  security_group_id = aws_security_group.this.id
  description       = "Names"
  cidr_ipv4         = var.network.cidr
  ip_protocol       = "udp"
  from_port         = 53
  to_port           = 53
}
