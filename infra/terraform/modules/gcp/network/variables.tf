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
  description = "Addresses and the way out (`nat`: for judges that call a model)."
  type = object({
    cidr = optional(string, "10.30.0.0/20")
    nat  = optional(bool, true)
  })
  default = {}

  validation {
    condition     = can(cidrhost(var.network.cidr, 1)) && try(tonumber(split("/", var.network.cidr)[1]) <= 24, false)
    error_message = "network.cidr: an IPv4 range of /24 or wider."
  }
}
