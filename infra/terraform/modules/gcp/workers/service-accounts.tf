# Two accounts: workers open secrets and write results; the scaler publishes the signal. Rights are on single boxes and
# one bucket.
resource "google_service_account" "worker" {
  project      = var.place.project
  account_id   = "${var.name}-worker"
  display_name = "mst workers of ${var.name}"
}

resource "google_service_account" "scaler" {
  project      = var.place.project
  account_id   = "${var.name}-scaler"
  display_name = "mst scaler of ${var.name}"
}

locals {
  box_readers = merge(
    { for kind, box in var.secrets : "worker-${kind}" => { box = box, email = google_service_account.worker.email } },
    { scaler-broker_url = { box = var.secrets.broker_url, email = google_service_account.scaler.email } },
  )
  machine_accounts = { worker = google_service_account.worker.email, scaler = google_service_account.scaler.email }
}

resource "google_secret_manager_secret_iam_member" "reader" {
  for_each = local.box_readers

  project   = var.place.project
  secret_id = each.value.box
  role      = "roles/secretmanager.secretAccessor"
  member    = "serviceAccount:${each.value.email}"
}

# Create and read, below the store's prefix; no delete, so nothing can be overwritten either.
resource "google_storage_bucket_iam_member" "store" {
  for_each = {
    for pair in setproduct(keys(local.machine_accounts), ["roles/storage.objectCreator", "roles/storage.objectViewer"]) :
    "${pair[0]}-${basename(pair[1])}" => { email = local.machine_accounts[pair[0]], role = pair[1] }
  }

  bucket = var.store.bucket
  role   = each.value.role
  member = "serviceAccount:${each.value.email}"

  condition {
    title      = "below-${var.store.prefix}"
    expression = "resource.type == \"storage.googleapis.com/Bucket\" || resource.name.startsWith(\"projects/_/buckets/${var.store.bucket}/objects/${var.store.prefix}/\")"
  }
}

resource "google_project_iam_member" "logs" {
  for_each = local.machine_accounts

  project = var.place.project
  role    = "roles/logging.logWriter"
  member  = "serviceAccount:${each.value}"
}

resource "google_project_iam_member" "metrics" {
  project = var.place.project
  role    = "roles/monitoring.metricWriter"
  member  = "serviceAccount:${google_service_account.scaler.email}"
}

# A worker ends its own machine when it is idle: a role with that one right, and one to find its group.
resource "google_project_iam_custom_role" "own_machine" {
  project     = var.place.project
  role_id     = replace("${var.name}_own_machine", "-", "_")
  title       = "mst ${var.name}: end own machine"
  permissions = ["compute.instanceGroupManagers.get", "compute.instanceGroupManagers.update", "compute.instances.delete"]
}

resource "google_project_iam_member" "own_machine" {
  project = var.place.project
  role    = google_project_iam_custom_role.own_machine.id
  member  = "serviceAccount:${google_service_account.worker.email}"

  condition {
    title      = "this-pool"
    expression = "resource.name.extract(\"/instances/{name}\").startsWith(\"${var.name}-\") || resource.name.extract(\"/instanceGroupManagers/{name}\").startsWith(\"${var.name}-\")"
  }
}
