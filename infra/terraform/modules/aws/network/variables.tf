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
  description = "Addresses and ways out. `egress`: `nat` (one gateway), `nat-per-zone`, or `none` (judges that need no internet). `flow_log_days`: 0 keeps no flow logs."
  type = object({
    zones         = list(string)
    cidr          = optional(string, "10.20.0.0/16")
    egress        = optional(string, "nat")
    flow_log_days = optional(number, 90)
    endpoints = optional(list(string), [
      "autoscaling", "ecr.api", "ecr.dkr", "logs", "monitoring", "secretsmanager", "ssm", "ssmmessages",
    ])
  })

  validation {
    condition     = length(var.network.zones) >= 2 && length(var.network.zones) <= 4
    error_message = "network.zones: 2 to 4 zones, so that a lost zone does not stop the fleet."
  }
  validation {
    condition     = can(cidrsubnet(var.network.cidr, 4, 15)) && try(tonumber(split("/", var.network.cidr)[1]) <= 22, false)
    error_message = "network.cidr: an IPv4 range of /22 or wider."
  }
  validation {
    condition     = contains(["nat", "nat-per-zone", "none"], var.network.egress)
    error_message = "network.egress: nat, nat-per-zone or none."
  }
  validation {
    condition     = contains([0, 1, 7, 14, 30, 90, 180, 365, 400], var.network.flow_log_days)
    error_message = "network.flow_log_days: 0, 1, 7, 14, 30, 90, 180, 365 or 400."
  }
}
