variable "region" {
  description = "Where everything is made."
  type        = string
  default     = "eu-central-1"
}

variable "zones" {
  description = "Zones of that region; named, so that a new one changes nothing."
  type        = list(string)
  default     = ["eu-central-1a", "eu-central-1b", "eu-central-1c"]
}

variable "bucket" {
  description = "Name of the result store's bucket; unique in all of S3."
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

variable "machine_image" {
  description = "An Amazon Linux 2023 image of your own; AWS's newest otherwise."
  type        = string
  default     = "resolve:ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"
}

variable "coordinators" {
  description = "ARNs of the users and roles that run evals; nobody else can give workers rights in the store."
  type        = list(string)

  validation {
    condition     = length(var.coordinators) > 0
    error_message = "coordinators: somebody has to run evals (arn:aws:iam::ACCOUNT:user/NAME, arn:aws:iam::ACCOUNT:role/NAME)."
  }
}

variable "emails" {
  description = "Who is told of alarms."
  type        = list(string)

  validation {
    condition     = length(var.emails) > 0
    error_message = "emails: an alarm that nobody gets is none."
  }
}

variable "monthly_usd" {
  description = "Cost alarm."
  type        = number
  default     = 500
}

variable "evals" {
  description = "Evals whose dispatches are removed when they are old."
  type        = list(string)
  default     = []
}
