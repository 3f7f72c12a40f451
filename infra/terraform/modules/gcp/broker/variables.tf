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

variable "broker" {
  description = "Size. `replicas`: 0 takes the basic tier, which loses its data when its machine is replaced."
  type = object({
    memory_gib = optional(number, 1)
    replicas   = optional(number, 0)
    version    = optional(string, "REDIS_7_2")
    kms_key    = optional(string)
  })
  default = {}

  validation {
    condition     = var.broker.memory_gib >= 1 && var.broker.replicas >= 0 && var.broker.replicas <= 5
    error_message = "broker: memory_gib at least 1, replicas 0 to 5."
  }
}
