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

variable "clients" {
  description = "Security groups that may reach the broker, by a name of your own."
  type        = map(string)

  validation {
    condition     = length(var.clients) > 0
    error_message = "clients: name at least the workers' security group."
  }
}

variable "broker" {
  description = "Size and upkeep. One primary and `replicas`; never a cluster, which Celery can't use. `kms_key_arn`: encrypts the data at rest; AWS's own key otherwise."
  type = object({
    node_type          = optional(string, "cache.t4g.small")
    engine_version     = optional(string, "8.0")
    replicas           = optional(number, 1)
    snapshot_days      = optional(number, 7)
    maintenance_window = optional(string, "sun:03:00-sun:04:00")
    kms_key_arn        = optional(string)
  })
  default = {}

  validation {
    condition     = var.broker.replicas >= 0 && var.broker.replicas <= 5
    error_message = "broker.replicas: 0 to 5."
  }
  validation {
    condition     = can(regex("^(7\\.2|8\\.[0-9]+)$", var.broker.engine_version))
    error_message = "broker.engine_version: a Valkey version, 7.2 or 8.x."
  }
}
