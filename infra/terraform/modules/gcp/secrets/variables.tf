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
