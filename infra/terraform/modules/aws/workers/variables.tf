variable "name" {
  description = "Prefix of all names, and the pool's name in logs and metrics."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,23}$", var.name))
    error_message = "name: 2 to 24 lower-case letters, digits and dashes, starting with a letter."
  }
}

variable "tags" {
  description = "Tags of everything that can carry tags."
  type        = map(string)
  default     = {}
}

variable "network" {
  description = "Output `network` of module `network`."
  type = object({
    vpc_id     = string
    cidr       = string
    subnet_ids = list(string)
  })
}

variable "store" {
  description = "Output `store` of module `store`. With `sessions` a worker's rights there come with each shard."
  type = object({
    bucket      = string
    arn         = string
    prefix      = string
    uri         = string
    kms_key_arn = optional(string)
    sessions    = optional(bool, false)
  })
}

variable "secrets" {
  description = "Output `secrets` of module `secrets`."
  type = object({
    fleet_key   = string
    signers     = string
    broker_url  = string
    kms_key_arn = string
  })
}

variable "image" {
  description = "The worker image, by digest, from a registry of this account (`mst images build` prints the digest)."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9./:_-]+@sha256:[0-9a-f]{64}$", var.image))
    error_message = "image: name it by digest, as REGISTRY/NAME@sha256:<64 hex digits>; a tag may be moved."
  }
}

variable "fleet" {
  description = "How many workers, and what each does. `backlog_target`: shards queued and running per slot that are worth no further machine. `idle_minutes`: a worker without work ends its machine after it. `drain_minutes`: how long a worker that is asked to stop may finish the units under way. `version`: the mst version of the image, part of the queues' names."
  type = object({
    version        = string
    min            = optional(number, 0)
    max            = optional(number, 10)
    slots          = optional(number, 1)
    works          = optional(list(string), ["collect", "grade"])
    class          = optional(string)
    backlog_target = optional(number, 1)
    idle_minutes   = optional(number, 2)
    drain_minutes  = optional(number, 30)
    boot_s         = optional(number, 180)
    log_days       = optional(number, 30)
  })

  validation {
    condition     = var.fleet.min >= 0 && var.fleet.max >= 1 && var.fleet.min <= var.fleet.max && var.fleet.max <= 10000
    error_message = "fleet: 0 <= min <= max <= 10000, and max at least 1."
  }
  validation {
    condition     = var.fleet.slots >= 1 && var.fleet.slots <= 64
    error_message = "fleet.slots: 1 to 64."
  }
  validation {
    condition     = length(var.fleet.works) > 0 && alltrue([for work in var.fleet.works : contains(["collect", "grade"], work)])
    error_message = "fleet.works: collect, grade, or both."
  }
  validation {
    condition     = var.fleet.backlog_target > 0 && var.fleet.idle_minutes >= 1
    error_message = "fleet: backlog_target above 0, idle_minutes at least 1."
  }
  validation {
    condition     = var.fleet.drain_minutes >= 2 && var.fleet.drain_minutes <= 120
    error_message = "fleet.drain_minutes: 2 to 120, the longest heartbeat of a lifecycle hook."
  }
  validation {
    condition     = can(regex("^[A-Za-z0-9.+!-]{1,64}$", var.fleet.version))
    error_message = "fleet.version: the version that `mst --version` prints."
  }
}

variable "machines" {
  description = "Instance types (one architecture: the image's), spot share, disk, and the machine image (Amazon Linux 2023)."
  type = object({
    types          = optional(list(string), ["m7i.large", "m6i.large", "m5.large"])
    spot_percent   = optional(number, 100)
    on_demand_base = optional(number, 0)
    disk_gib       = optional(number, 50)
    disk_kms_key   = optional(string)
    machine_image  = optional(string, "resolve:ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64")
    scaler_type    = optional(string, "t3.micro")
  })
  default = {}

  validation {
    condition     = length(var.machines.types) >= 1 && length(var.machines.types) <= 40
    error_message = "machines.types: 1 to 40 instance types; several, so that a spot pool that is empty stops nothing."
  }
  validation {
    condition     = var.machines.spot_percent >= 0 && var.machines.spot_percent <= 100 && var.machines.on_demand_base >= 0
    error_message = "machines: spot_percent 0 to 100, on_demand_base not negative."
  }
  validation {
    condition     = var.machines.disk_gib >= 20
    error_message = "machines.disk_gib: at least 20; results wait on disk while the store does not answer."
  }
}
