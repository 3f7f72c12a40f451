# The smallest fleet on Google Cloud: from nobody to four machines and back, one small broker, one bucket.
provider "google" {
  project = var.project
  region  = var.region
}

locals {
  name  = "mst-minimal"
  place = { project = var.project, region = var.region }
}

module "network" {
  source = "../../modules/gcp/network"

  name  = local.name
  place = local.place
}

module "broker" {
  source = "../../modules/gcp/broker"

  name    = local.name
  place   = local.place
  network = module.network.network
}

module "store" {
  source = "../../modules/gcp/store"

  name  = local.name
  place = local.place
  store = { bucket = var.bucket, force_destroy = true }
}

module "secrets" {
  source = "../../modules/gcp/secrets"

  name  = local.name
  place = local.place
}

module "workers" {
  source = "../../modules/gcp/workers"

  name    = local.name
  place   = local.place
  network = module.network.network
  store   = module.store.store
  secrets = module.secrets.secrets
  image   = var.image
  fleet   = { version = var.mst_version, max = 4, broker_ca = module.broker.ca_certificates }
}

module "monitoring" {
  source = "../../modules/gcp/monitoring"

  name   = local.name
  place  = local.place
  alarms = { emails = var.emails }
}
