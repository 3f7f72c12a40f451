output "store" {
  description = "`bucket`, `arn`, `kms_key_arn`, `prefix` and `uri` (MST_STORE of coordinators and workers)."
  value = {
    bucket      = aws_s3_bucket.this.id
    arn         = aws_s3_bucket.this.arn
    kms_key_arn = var.store.kms_key_arn
    prefix      = local.prefix
    uri         = "s3://${aws_s3_bucket.this.id}/${local.prefix}"
  }
}
