output "workers" {
  description = "`group`, `scaler`, `queues`, `account`."
  value = {
    group   = google_compute_region_instance_group_manager.workers.name
    scaler  = google_compute_instance.scaler.name
    queues  = local.queues
    account = google_service_account.worker.email
  }
}
