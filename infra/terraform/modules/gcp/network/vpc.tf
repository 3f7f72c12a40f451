resource "google_compute_network" "this" {
  project                 = var.place.project
  name                    = var.name
  auto_create_subnetworks = false
}

resource "google_compute_subnetwork" "this" {
  project                  = var.place.project
  region                   = var.place.region
  name                     = var.name
  network                  = google_compute_network.this.id
  ip_cidr_range            = var.network.cidr
  private_ip_google_access = true

  # Memorystore and others stay on private addresses; nothing here has IPv6.
  stack_type = "IPV4_ONLY"

  log_config {
    aggregation_interval = "INTERVAL_10_MIN"
    flow_sampling        = 0.1
    metadata             = "EXCLUDE_ALL_METADATA"
  }
}

# Managed services (the broker) get addresses of their own range beside ours.
resource "google_compute_global_address" "services" {
  project       = var.place.project
  name          = "${var.name}-services"
  network       = google_compute_network.this.id
  purpose       = "VPC_PEERING"
  address_type  = "INTERNAL"
  prefix_length = 20
}

resource "google_service_networking_connection" "this" {
  network                 = google_compute_network.this.id
  service                 = "servicenetworking.googleapis.com"
  reserved_peering_ranges = [google_compute_global_address.services.name]
}
