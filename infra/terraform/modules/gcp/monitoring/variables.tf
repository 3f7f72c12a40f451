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

variable "alarms" {
  description = "Who is told, and when. `billing_account` with `monthly_usd` above 0 sets a cost alarm."
  type = object({
    emails              = list(string)
    oldest_wait_minutes = optional(number, 30)
    broker_memory_pct   = optional(number, 75)
    monthly_usd         = optional(number, 0)
    billing_account     = optional(string)
  })

  validation {
    condition     = length(var.alarms.emails) > 0
    error_message = "alarms.emails: an alarm that nobody gets is none."
  }
  validation {
    condition     = var.alarms.monthly_usd == 0 || var.alarms.billing_account != null
    error_message = "alarms.billing_account: a cost alarm needs one."
  }
}
