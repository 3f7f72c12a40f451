# Memorystore makes the password itself, and the provider reads it into the state: keep that state in a bucket of its
# own, encrypted and closed to people (examples/gcp-minimal/README.md). It has one user, `default`.
resource "google_redis_instance" "this" {
  project            = var.place.project
  region             = var.place.region
  name               = "${var.name}-broker"
  display_name       = "mst: queues, ledger and sealed grants"
  redis_version      = var.broker.version
  memory_size_gb     = var.broker.memory_gib
  tier               = var.broker.replicas > 0 ? "STANDARD_HA" : "BASIC"
  replica_count      = var.broker.replicas > 0 ? var.broker.replicas : null
  read_replicas_mode = "READ_REPLICAS_DISABLED"

  authorized_network      = var.network.id
  connect_mode            = "PRIVATE_SERVICE_ACCESS"
  auth_enabled            = true
  transit_encryption_mode = "SERVER_AUTHENTICATION"
  customer_managed_key    = var.broker.kms_key

  # A full broker must refuse writes loudly: any other policy drops queued shards, and tells nobody.
  redis_configs = { maxmemory-policy = "noeviction" }

  persistence_config {
    persistence_mode    = "RDB"
    rdb_snapshot_period = "ONE_HOUR"
  }

  labels = merge(var.labels, { mst-pool = var.name })
}
