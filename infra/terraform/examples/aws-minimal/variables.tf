variable "region" {
  description = "Where everything is made."
  type        = string
  default     = "eu-central-1"
}

variable "zones" {
  description = "Zones of that region; named, so that a new one changes nothing."
  type        = list(string)
  default     = ["eu-central-1a", "eu-central-1b"]
}

variable "bucket" {
  description = "Name of the result store's bucket; unique in all of S3."
  type        = string
}

variable "coordinators" {
  description = "ARNs of the users and roles that run evals: with any, workers have no rights of their own in the store."
  type        = list(string)
  default     = []
}

variable "image" {
  description = "The worker image, by digest (`mst images build` prints it)."
  type        = string
}

variable "mst_version" {
  description = "What `mst --version` says in that image."
  type        = string
}

variable "machine_image" {
  description = "An Amazon Linux 2023 image of your own; AWS's newest otherwise."
  type        = string
  default     = "resolve:ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"
}
