locals {
  prefix = "mst"
  tags   = merge(var.tags, { "mst:pool" = var.name })
}

resource "aws_s3_bucket" "this" {
  #checkov:skip=CKV_AWS_144:results are written to one region; replicate where yours must outlive it
  #checkov:skip=CKV2_AWS_62:coordinators poll manifests; nothing listens to bucket events
  #checkov:skip=CKV_AWS_18:access logs go where log_bucket says, which is the operator's choice
  #checkov:skip=CKV_AWS_145:the key is the operator's choice (kms_key_arn); SSE-S3 otherwise
  bucket        = var.store.bucket
  force_destroy = var.store.force_destroy
  tags          = local.tags
}

resource "aws_s3_bucket_ownership_controls" "this" {
  bucket = aws_s3_bucket.this.id

  rule {
    object_ownership = "BucketOwnerEnforced"
  }
}

resource "aws_s3_bucket_public_access_block" "this" {
  bucket                  = aws_s3_bucket.this.id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_versioning" "this" {
  bucket = aws_s3_bucket.this.id

  versioning_configuration {
    status = "Enabled"
  }
}

resource "aws_s3_bucket_server_side_encryption_configuration" "this" {
  bucket = aws_s3_bucket.this.id

  rule {
    bucket_key_enabled = var.store.kms_key_arn != null

    apply_server_side_encryption_by_default {
      sse_algorithm     = var.store.kms_key_arn == null ? "AES256" : "aws:kms"
      kms_master_key_id = var.store.kms_key_arn
    }
  }
}

resource "aws_s3_bucket_logging" "this" {
  count = var.store.log_bucket == null ? 0 : 1

  bucket        = aws_s3_bucket.this.id
  target_bucket = var.store.log_bucket
  target_prefix = "${var.store.bucket}/"
}
