locals {
  labels = merge(var.labels, { mst-pool = var.name })
  queues = [
    for work in var.fleet.works :
    join(".", compact(["mst", work, var.fleet.class, var.fleet.version]))
  ]
  worker_command = join(" ", concat(
    ["worker", "--trusted", "--cloud", "gcp", "--slots", var.fleet.slots, "--idle-minutes", var.fleet.idle_minutes],
    var.fleet.class == null ? [] : ["--class", var.fleet.class],
    flatten([for work in var.fleet.works : ["--work", work]]),
  ))
  boot = {
    project    = var.place.project
    image      = var.image
    store_uri  = var.store.uri
    broker_url = var.secrets.broker_url
    broker_ca  = join("\n", var.fleet.broker_ca)
  }
}

resource "google_compute_instance_template" "worker" {
  #checkov:skip=CKV_GCP_37:the disk's key is the operator's choice (disk_kms_key); Google's own otherwise
  project      = var.place.project
  region       = var.place.region
  name_prefix  = "${var.name}-worker-"
  machine_type = var.machines.type
  labels       = local.labels
  tags         = ["${var.name}-worker"]

  disk {
    source_image = var.machines.machine_image
    disk_size_gb = var.machines.disk_gib
    disk_type    = "pd-balanced"
    boot         = true
    auto_delete  = true

    dynamic "disk_encryption_key" {
      for_each = var.machines.disk_kms_key == null ? [] : [var.machines.disk_kms_key]

      content {
        kms_key_self_link = disk_encryption_key.value
      }
    }
  }

  # No access_config: no public address.
  network_interface {
    subnetwork = var.network.subnet
  }

  scheduling {
    preemptible                 = var.machines.spot
    provisioning_model          = var.machines.spot ? "SPOT" : "STANDARD"
    automatic_restart           = !var.machines.spot
    instance_termination_action = var.machines.spot ? "DELETE" : null
    on_host_maintenance         = var.machines.spot ? "TERMINATE" : "MIGRATE"
  }

  service_account {
    email  = google_service_account.worker.email
    scopes = ["cloud-platform"]
  }

  shielded_instance_config {
    enable_secure_boot          = true
    enable_vtpm                 = true
    enable_integrity_monitoring = true
  }

  metadata = {
    block-project-ssh-keys = "true"
    enable-oslogin         = "true"
    user-data = templatefile("${path.module}/templates/cloud-init.yaml.tftpl", merge(local.boot, {
      role      = "worker"
      command   = local.worker_command
      restart   = "on-failure"
      drain_s   = var.fleet.drain_minutes * 60
      key_files = { "fleet.key" = var.secrets.fleet_key, "signers.json" = var.secrets.signers }
    }))
  }

  lifecycle {
    create_before_destroy = true
  }
}
