variable "name" {
  description = "Prefix of all names, and the pool's name in logs and metrics."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,23}$", var.name))
    error_message = "name: 2 to 24 lower-case letters, digits and dashes, starting with a letter."
  }
}

variable "place" {
  description = "Project and region."
  type = object({
    project = string
    region  = string
  })
}

variable "labels" {
  description = "Labels of everything that can carry labels."
  type        = map(string)
  default     = {}
}

variable "network" {
  description = "Output `network` of module `network`."
  type = object({
    id     = string
    subnet = string
    cidr   = string
  })
}

variable "store" {
  description = "Output `store` of module `store`."
  type = object({
    bucket = string
    prefix = string
    uri    = string
  })
}

variable "secrets" {
  description = "Output `secrets` of module `secrets`."
  type = object({
    fleet_key  = string
    signers    = string
    broker_url = string
  })
}

variable "image" {
  description = "The worker image, by digest (`mst images build` prints it)."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9./:_-]+@sha256:[0-9a-f]{64}$", var.image))
    error_message = "image: name it by digest, as REGISTRY/NAME@sha256:<64 hex digits>; a tag may be moved."
  }
}

variable "fleet" {
  description = "How many workers, and what each does; as in the AWS module. `broker_ca`: output of module `broker`."
  type = object({
    version        = string
    broker_ca      = list(string)
    min            = optional(number, 0)
    max            = optional(number, 10)
    slots          = optional(number, 1)
    works          = optional(list(string), ["collect", "grade"])
    class          = optional(string)
    backlog_target = optional(number, 1)
    idle_minutes   = optional(number, 2)
    drain_minutes  = optional(number, 30)
    boot_s         = optional(number, 180)
  })

  validation {
    condition     = var.fleet.min >= 0 && var.fleet.max >= 1 && var.fleet.min <= var.fleet.max && var.fleet.max <= 1000
    error_message = "fleet: 0 <= min <= max <= 1000 (the limit of one managed group), and max at least 1."
  }
  validation {
    condition     = length(var.fleet.works) > 0 && alltrue([for work in var.fleet.works : contains(["collect", "grade"], work)])
    error_message = "fleet.works: collect, grade, or both."
  }
  validation {
    condition     = var.fleet.slots >= 1 && var.fleet.slots <= 64 && var.fleet.backlog_target > 0 && var.fleet.idle_minutes >= 1
    error_message = "fleet: slots 1 to 64, backlog_target above 0, idle_minutes at least 1."
  }
}

variable "machines" {
  description = "Machine type, spot or not, disk, and the machine image (Container-Optimized OS)."
  type = object({
    type          = optional(string, "n2-standard-2")
    spot          = optional(bool, true)
    disk_gib      = optional(number, 50)
    disk_kms_key  = optional(string)
    machine_image = optional(string, "projects/cos-cloud/global/images/family/cos-stable")
    scaler_type   = optional(string, "e2-micro")
  })
  default = {}
}
