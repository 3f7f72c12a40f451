# The fleet's user is made switched off and without a password: a password that Terraform knows is in its state.
# `scripts/set-broker-password` sets one, stores the URL in Secrets Manager and switches the user on, with the rules of
# policies/broker-acl.txt. Later changes of these are left alone here.
resource "aws_elasticache_user" "fleet" {
  user_id       = "${var.name}-fleet"
  user_name     = "mst"
  engine        = "valkey"
  access_string = "off ~* -@all"

  authentication_mode {
    type = "no-password-required"
  }

  tags = local.tags

  lifecycle {
    ignore_changes = [access_string, authentication_mode, no_password_required, passwords]
  }
}

resource "aws_elasticache_user_group" "this" {
  engine        = "valkey"
  user_group_id = "${var.name}-broker"
  user_ids      = [aws_elasticache_user.fleet.user_id]
  tags          = local.tags
}
