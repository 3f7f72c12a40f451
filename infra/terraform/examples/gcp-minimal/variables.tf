variable "project" {
  description = "Project ID."
  type        = string
}

variable "region" {
  description = "Where everything is made."
  type        = string
  default     = "europe-west3"
}

variable "bucket" {
  description = "Name of the result store's bucket; unique in all of Cloud Storage."
  type        = string
}

variable "image" {
  description = "The worker image, by digest (`mst images build` prints it)."
  type        = string
}

variable "mst_version" {
  description = "What `mst --version` says in that image."
  type        = string
}

variable "emails" {
  description = "Who is told of alarms."
  type        = list(string)
}
