# A coordinator takes on this role for each shard, narrowed to that shard's folder (ADR 14). Workers then have no rights
# of their own in the store, and a machine that runs no shard can read nothing.
resource "aws_iam_role" "shard" {
  count = length(var.store.coordinators) == 0 ? 0 : 1

  name_prefix        = "${var.name}-shard-"
  description        = "mst: taken on for one shard, with a session policy"
  assume_role_policy = templatefile("${path.module}/policies/shard-trust.json.tftpl", { coordinators = var.store.coordinators })
  tags               = local.tags
}

resource "aws_iam_role_policy" "shard" {
  count = length(aws_iam_role.shard)

  name   = "store"
  role   = aws_iam_role.shard[count.index].id
  policy = jsonencode({ Version = "2012-10-17", Statement = local.statements.worker })
}
