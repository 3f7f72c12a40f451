# Empty boxes: their content is put in with gcloud, so that it never passes through Terraform's state.
locals {
  boxes = toset(["fleet-key", "signers", "broker-url"])
}

resource "google_secret_manager_secret" "this" {
  for_each = local.boxes

  project   = var.place.project
  secret_id = "${var.name}-${each.key}"
  labels    = merge(var.labels, { mst-pool = var.name })

  replication {
    user_managed {
      replicas {
        location = var.place.region
      }
    }
  }
}
