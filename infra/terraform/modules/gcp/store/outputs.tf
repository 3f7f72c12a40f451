output "store" {
  description = "`bucket`, `prefix` and `uri` (MST_STORE of coordinators and workers)."
  value = {
    bucket = google_storage_bucket.this.name
    prefix = local.prefix
    uri    = "gs://${google_storage_bucket.this.name}/${local.prefix}"
  }
}
