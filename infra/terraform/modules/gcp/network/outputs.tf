output "network" {
  description = "What the other modules need: `id`, `subnet`, `cidr`."
  value = {
    id     = google_compute_network.this.id
    subnet = google_compute_subnetwork.this.id
    cidr   = google_compute_subnetwork.this.ip_cidr_range
  }

  depends_on = [google_service_networking_connection.this]
}
