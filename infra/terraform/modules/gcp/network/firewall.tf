# Nothing comes in but sessions through Google's proxy, and those only to the always-on machine.
resource "google_compute_firewall" "sessions" {
  project       = var.place.project
  name          = "${var.name}-sessions"
  network       = google_compute_network.this.id
  direction     = "INGRESS"
  source_ranges = ["35.235.240.0/20"]
  target_tags   = ["${var.name}-scaler"]

  allow {
    protocol = "tcp"
    ports    = ["22"]
  }
}
