# A fleet that people rely on: a gateway a zone, a broker with a replica, keys of our own, two pools (spot for grading,
# on demand for collecting) whose machines have no rights in the store, alarms and a cost limit.
provider "aws" {
  region = var.region

  default_tags {
    tags = { project = "mst", example = "aws-production" }
  }
}

locals {
  name = "mst-production"
}

module "network" {
  source = "../../modules/aws/network"

  name    = local.name
  network = { zones = var.zones, egress = "nat-per-zone", flow_log_days = 365 }
}

module "secrets" {
  source = "../../modules/aws/secrets"

  name    = local.name
  secrets = { recovery_days = 30 }
}

module "store" {
  source = "../../modules/aws/store"

  name = local.name
  store = {
    bucket         = var.bucket
    kms_key_arn    = module.secrets.secrets.kms_key_arn
    coordinators   = var.coordinators
    evals          = var.evals
    deadline_h     = 24 * 7
    retention_days = 7
    dispatch_days  = 45
  }
}

module "workers" {
  source = "../../modules/aws/workers"
  for_each = {
    grade   = { works = ["grade"], spot_percent = 100, slots = 4, max = 200 }
    collect = { works = ["collect"], spot_percent = 0, slots = 1, max = 100 }
  }

  name    = "${local.name}-${each.key}"
  network = module.network.network
  store   = module.store.store
  secrets = module.secrets.secrets
  image   = var.image
  fleet = {
    version       = var.mst_version
    works         = each.value.works
    slots         = each.value.slots
    max           = each.value.max
    drain_minutes = 60
    log_days      = 90
  }
  machines = {
    types         = ["m7i.xlarge", "m6i.xlarge", "m6a.xlarge", "m5.xlarge", "m5a.xlarge"]
    spot_percent  = each.value.spot_percent
    disk_gib      = 100
    machine_image = var.machine_image
  }
}

module "broker" {
  source = "../../modules/aws/broker"

  name    = local.name
  network = module.network.network
  clients = { for kind, pool in module.workers : kind => pool.workers.security_group }
  broker  = { replicas = 1, node_type = "cache.m7g.large", kms_key_arn = module.secrets.secrets.kms_key_arn }
}

module "monitoring" {
  source   = "../../modules/aws/monitoring"
  for_each = module.workers

  name   = "${local.name}-${each.key}"
  watch  = { broker_id = module.broker.broker.id, broker_nodes = 2, workers_group = each.value.workers.group }
  alarms = { emails = var.emails, monthly_usd = var.monthly_usd, oldest_wait_minutes = 20 }
}
