resource "google_compute_router" "this" {
  count = var.network.nat ? 1 : 0

  project = var.place.project
  region  = var.place.region
  name    = var.name
  network = google_compute_network.this.id
}

resource "google_compute_router_nat" "this" {
  count = var.network.nat ? 1 : 0

  project                            = var.place.project
  region                             = var.place.region
  name                               = var.name
  router                             = google_compute_router.this[0].name
  nat_ip_allocate_option             = "AUTO_ONLY"
  source_subnetwork_ip_ranges_to_nat = "ALL_SUBNETWORKS_ALL_IP_RANGES"
}
