# The smallest fleet that is a fleet: from nobody to four machines and back, one small broker, one bucket.
provider "aws" {
  region = var.region

  default_tags {
    tags = { project = "mst", example = "aws-minimal" }
  }
}

locals {
  name = "mst-minimal"
}

module "network" {
  source = "../../modules/aws/network"

  name    = local.name
  network = { zones = var.zones, flow_log_days = 0 }
}

module "store" {
  source = "../../modules/aws/store"

  name  = local.name
  store = { bucket = var.bucket, coordinators = var.coordinators, force_destroy = true }
}

module "secrets" {
  source = "../../modules/aws/secrets"

  name    = local.name
  secrets = { recovery_days = 0 }
}

module "workers" {
  source = "../../modules/aws/workers"

  name     = local.name
  network  = module.network.network
  store    = module.store.store
  secrets  = module.secrets.secrets
  image    = var.image
  fleet    = { version = var.mst_version, max = 4 }
  machines = { machine_image = var.machine_image, types = ["m7i.large", "m6i.large", "m5.large"] }
}

module "broker" {
  source = "../../modules/aws/broker"

  name    = local.name
  network = module.network.network
  clients = { workers = module.workers.workers.security_group }
  broker  = { replicas = 0, node_type = "cache.t4g.micro" }
}

module "monitoring" {
  source = "../../modules/aws/monitoring"

  name  = local.name
  watch = { broker_id = module.broker.broker.id, broker_nodes = 1, workers_group = module.workers.workers.group }
}
