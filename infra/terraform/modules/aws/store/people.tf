# What whoever runs evals, or keeps the store in order, attaches to a user or role. Nobody gets them from here.
locals {
  policies = "${path.module}/../../../../policies"
  store    = { bucket_arn = aws_s3_bucket.this.arn, prefix = local.prefix }
  key = var.store.kms_key_arn == null ? [] : jsondecode(
    templatefile("${local.policies}/s3-key.json.tftpl", { kms_key_arn = var.store.kms_key_arn })
  ).Statement
  shard_role = [
    for role in aws_iam_role.shard :
    jsondecode(templatefile("${path.module}/policies/take-on-shard.json.tftpl", { role_arn = role.arn })).Statement
  ]
  statements = {
    for name, more in { coordinator = flatten(local.shard_role), keeper = [], worker = [] } :
    name => concat(jsondecode(templatefile("${local.policies}/s3-${name}.json.tftpl", local.store)).Statement, local.key, more)
  }
}

resource "aws_iam_policy" "people" {
  for_each = toset(["coordinator", "keeper"])

  name_prefix = "${var.name}-store-${each.key}-"
  description = "mst: what a ${each.key} does in the result store"
  policy      = jsonencode({ Version = "2012-10-17", Statement = local.statements[each.key] })
  tags        = local.tags
}
