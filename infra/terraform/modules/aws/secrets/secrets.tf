# Empty boxes: their content is put in with the AWS command line, so that it never passes through Terraform's state.
locals {
  tags = merge(var.tags, { "mst:pool" = var.name })
  boxes = {
    fleet-key  = "private age key of the workers (mst fleet keygen: fleet.key)"
    signers    = "public keys whose work is accepted (signers.json)"
    broker-url = "rediss://USER:PASSWORD@HOST:6379/0 (scripts/set-broker-password)"
  }
  kms_key_arn = coalesce(var.secrets.kms_key_arn, one(aws_kms_key.this[*].arn))
}

resource "aws_secretsmanager_secret" "this" {
  #checkov:skip=CKV2_AWS_57:a fleet key is changed by people, with both keys valid for a while (docs/how-to/operate-a-fleet.md)
  for_each = local.boxes

  name                    = "${var.name}/${each.key}"
  description             = "mst: ${each.value}"
  kms_key_id              = local.kms_key_arn
  recovery_window_in_days = var.secrets.recovery_days
  tags                    = local.tags
}
