resource "aws_s3_bucket_lifecycle_configuration" "this" {
  bucket = aws_s3_bucket.this.id

  rule {
    id     = "broken-uploads"
    status = "Enabled"

    filter {}

    abort_incomplete_multipart_upload {
      days_after_initiation = 7
    }
  }

  rule {
    id     = "old-versions"
    status = "Enabled"

    filter {}

    noncurrent_version_expiration {
      noncurrent_days = 30
    }
    expiration {
      expired_object_delete_marker = true
    }
  }

  # Bundles and attempts of old dispatches. The store keeps them below each eval, and S3 knows prefixes only, so the
  # evals are named; those that are not are left to `mst store gc`.
  dynamic "rule" {
    for_each = var.store.dispatch_days > 0 ? toset(var.store.evals) : []

    content {
      id     = "dispatches-${rule.value}"
      status = "Enabled"

      filter {
        prefix = "${local.prefix}/${rule.value}/dispatches/"
      }
      expiration {
        days = var.store.dispatch_days
      }
    }
  }

  depends_on = [aws_s3_bucket_versioning.this]
}
