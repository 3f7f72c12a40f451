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

variable "store" {
  description = "The result store. `evals`: whose `dispatches/` are removed after `dispatch_days` (0 keeps them for ever), which must be longer than deadline and retention together, or shards lose their bundles while they wait."
  type = object({
    bucket         = string
    evals          = optional(list(string), [])
    dispatch_days  = optional(number, 30)
    deadline_h     = optional(number, 24)
    retention_days = optional(number, 7)
    kms_key        = optional(string)
    log_bucket     = optional(string)
    force_destroy  = optional(bool, false)
  })

  validation {
    condition     = var.store.dispatch_days == 0 || var.store.dispatch_days * 24 > var.store.deadline_h + var.store.retention_days * 24
    error_message = "store.dispatch_days: longer than deadline_h and retention_days together, since a shard may wait that long for its bundle."
  }
  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]$", var.store.bucket))
    error_message = "store.bucket: 3 to 63 lower-case letters, digits, dots, dashes and underscores."
  }
}
