# One small machine that is always there: publishes the scaling signal, sends lost shards again, and is the way in for a
# laptop (a session through Google's proxy that forwards the broker's port).
resource "google_compute_instance" "scaler" {
  #checkov:skip=CKV_GCP_38:the disk's key is the operator's choice (disk_kms_key); Google's own otherwise
  project                   = var.place.project
  zone                      = "${var.place.region}-b"
  name                      = "${var.name}-scaler"
  machine_type              = var.machines.scaler_type
  labels                    = local.labels
  tags                      = ["${var.name}-scaler"]
  allow_stopping_for_update = true

  boot_disk {
    kms_key_self_link = var.machines.disk_kms_key

    initialize_params {
      image = var.machines.machine_image
      size  = 20
    }
  }

  network_interface {
    subnetwork = var.network.subnet
  }

  service_account {
    email  = google_service_account.scaler.email
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
      role      = "scaler"
      command   = join(" ", concat(["fleet", "scale", "--every", 30, "--publish", "gcp", "--project", var.place.project, "--pool", var.name, "--slots", var.fleet.slots, "--janitor"], flatten([for queue in local.queues : ["--queue", queue]])))
      restart   = "always"
      drain_s   = 30
      key_files = {}
    }))
  }
}
