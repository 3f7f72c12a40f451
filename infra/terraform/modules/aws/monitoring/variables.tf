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

variable "watch" {
  description = "What is watched: the broker's ID (output `broker.id`) and the workers' scaling group (output `workers.group`)."
  type = object({
    broker_id     = string
    broker_nodes  = optional(number, 2)
    workers_group = string
  })
}

variable "alarms" {
  description = "When somebody is called, and who. `oldest_wait_minutes`: a shard that waits longer. `monthly_usd`: 0 sets no cost alarm."
  type = object({
    emails              = optional(list(string), [])
    oldest_wait_minutes = optional(number, 30)
    broker_memory_pct   = optional(number, 75)
    monthly_usd         = optional(number, 0)
    topic_kms_key       = optional(string, "alias/aws/sns")
  })
  default = {}

  validation {
    condition     = var.alarms.oldest_wait_minutes >= 5 && var.alarms.broker_memory_pct > 0 && var.alarms.broker_memory_pct < 100
    error_message = "alarms: oldest_wait_minutes at least 5, broker_memory_pct between 0 and 100."
  }
  validation {
    condition     = var.alarms.monthly_usd == 0 || length(var.alarms.emails) > 0
    error_message = "alarms.emails: a cost alarm needs somebody to tell."
  }
}
