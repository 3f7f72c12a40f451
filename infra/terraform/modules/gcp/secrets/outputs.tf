output "secrets" {
  description = "IDs of the boxes: `fleet_key`, `signers`, `broker_url`."
  value = {
    fleet_key  = google_secret_manager_secret.this["fleet-key"].secret_id
    signers    = google_secret_manager_secret.this["signers"].secret_id
    broker_url = google_secret_manager_secret.this["broker-url"].secret_id
  }
}
