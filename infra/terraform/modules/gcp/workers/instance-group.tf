resource "google_compute_region_instance_group_manager" "workers" {
  project            = var.place.project
  region             = var.place.region
  name               = "${var.name}-workers"
  base_instance_name = "${var.name}-worker"

  version {
    instance_template = google_compute_instance_template.worker.id
  }

  # A new template reaches machines as they come; those that hold a shard are left alone.
  update_policy {
    type                         = "OPPORTUNISTIC"
    minimal_action               = "REPLACE"
    instance_redistribution_type = "NONE"
  }

  lifecycle {
    ignore_changes = [target_size]
  }
}

# Out only: Google can't know which machine holds a shard, and a worker ends its own machine when it is idle.
resource "google_compute_region_autoscaler" "workers" {
  project = var.place.project
  region  = var.place.region
  name    = "${var.name}-workers"
  target  = google_compute_region_instance_group_manager.workers.id

  autoscaling_policy {
    min_replicas    = var.fleet.min
    max_replicas    = var.fleet.max
    cooldown_period = var.fleet.boot_s
    mode            = "ONLY_SCALE_OUT"

    # The whole backlog over what one machine takes: works from zero as well.
    metric {
      name                       = "custom.googleapis.com/mst/backlog_shards"
      filter                     = "resource.type = \"generic_task\" AND metric.labels.pool = \"${var.name}\""
      single_instance_assignment = var.fleet.backlog_target * var.fleet.slots
    }
  }
}
