output "store" {
  description = "`bucket`, `arn`, `kms_key_arn`, `prefix`, `uri` (MST_STORE of coordinators and workers) `shard_role_arn` (MST_STORE_ROLE of coordinators; null without `coordinators`) and `sessions` (whether there is one)."
  value = {
    bucket         = aws_s3_bucket.this.id
    arn            = aws_s3_bucket.this.arn
    kms_key_arn    = var.store.kms_key_arn
    prefix         = local.prefix
    uri            = "s3://${aws_s3_bucket.this.id}/${local.prefix}"
    shard_role_arn = one(aws_iam_role.shard[*].arn)
    sessions       = length(aws_iam_role.shard) > 0
  }
}

output "policies" {
  description = "ARNs of policies to attach: `coordinator` to who runs evals, `keeper` to who runs `mst store verify` and `gc`."
  value       = { for name, policy in aws_iam_policy.people : name => policy.arn }
}
