locals {
  prefix = "mst"
}

resource "google_storage_bucket" "this" {
  #checkov:skip=CKV_GCP_62:access logs go where log_bucket says, which is the operator's choice
  project                     = var.place.project
  location                    = var.place.region
  name                        = var.store.bucket
  force_destroy               = var.store.force_destroy
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  labels                      = merge(var.labels, { mst-pool = var.name })

  versioning {
    enabled = true
  }

  dynamic "encryption" {
    for_each = var.store.kms_key == null ? [] : [var.store.kms_key]

    content {
      default_kms_key_name = encryption.value
    }
  }

  dynamic "logging" {
    for_each = var.store.log_bucket == null ? [] : [var.store.log_bucket]

    content {
      log_bucket = logging.value
    }
  }

  lifecycle_rule {
    condition {
      days_since_noncurrent_time = 30
    }
    action {
      type = "Delete"
    }
  }

  lifecycle_rule {
    condition {
      age = 7
    }
    action {
      type = "AbortIncompleteMultipartUpload"
    }
  }

  dynamic "lifecycle_rule" {
    for_each = var.store.dispatch_days > 0 && length(var.store.evals) > 0 ? [1] : []

    content {
      condition {
        age            = var.store.dispatch_days
        matches_prefix = [for name in var.store.evals : "${local.prefix}/${name}/dispatches/"]
      }
      action {
        type = "Delete"
      }
    }
  }
}
