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

variable "secrets" {
  description = "`recovery_days`: how long a deleted secret can be had back. `kms_key_arn`: a key of your own; one is made otherwise."
  type = object({
    recovery_days = optional(number, 7)
    kms_key_arn   = optional(string)
  })
  default = {}

  validation {
    condition     = var.secrets.recovery_days == 0 || (var.secrets.recovery_days >= 7 && var.secrets.recovery_days <= 30)
    error_message = "secrets.recovery_days: 0 (at once) or 7 to 30."
  }
}
