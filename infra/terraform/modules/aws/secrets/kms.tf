data "aws_caller_identity" "this" {}
data "aws_partition" "this" {}

resource "aws_kms_key" "this" {
  count = var.secrets.kms_key_arn == null ? 1 : 0

  description             = "mst ${var.name}: the fleet's secrets"
  enable_key_rotation     = true
  deletion_window_in_days = 30
  policy = templatefile("${path.module}/policies/key.json.tftpl", {
    partition  = data.aws_partition.this.partition
    account_id = data.aws_caller_identity.this.account_id
  })
  tags = local.tags
}
