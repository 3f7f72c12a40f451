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

variable "store" {
  description = "The result store. `evals`: whose `dispatches/` are removed after `dispatch_days` (0 keeps them for ever), which must be longer than deadline and retention together, or shards lose their bundles while they wait. `coordinators`: ARNs of users and roles of this account that may take on the role of shards; with any, workers get no rights of their own in the store. `force_destroy`: let `terraform destroy` take the results with it."
  type = object({
    bucket         = string
    evals          = optional(list(string), [])
    dispatch_days  = optional(number, 30)
    deadline_h     = optional(number, 24)
    retention_days = optional(number, 7)
    kms_key_arn    = optional(string)
    coordinators   = optional(list(string), [])
    log_bucket     = optional(string)
    force_destroy  = optional(bool, false)
  })

  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", var.store.bucket))
    error_message = "store.bucket: 3 to 63 lower-case letters, digits, dots and dashes."
  }
  validation {
    condition     = var.store.deadline_h > 0 && var.store.retention_days >= 0 && var.store.dispatch_days >= 0
    error_message = "store: deadline_h, retention_days and dispatch_days are not negative."
  }
  validation {
    condition     = var.store.dispatch_days == 0 || var.store.dispatch_days * 24 > var.store.deadline_h + var.store.retention_days * 24
    error_message = "store.dispatch_days: longer than deadline_h and retention_days together, since a shard may wait that long for its bundle."
  }
  validation {
    condition     = length(var.store.evals) <= 900 && alltrue([for name in var.store.evals : can(regex("^[A-Za-z0-9._%-]{1,128}$", name))])
    error_message = "store.evals: at most 900 names as they stand in the store (letters, digits and ._%-)."
  }
  validation {
    condition     = alltrue([for arn in var.store.coordinators : can(regex("^arn:[a-z-]+:iam::[0-9]{12}:(user|role)/[^*]+$", arn))])
    error_message = "store.coordinators: ARNs of users or roles (arn:aws:iam::ACCOUNT:user/NAME, arn:aws:iam::ACCOUNT:role/NAME), none for a whole account."
  }
}
