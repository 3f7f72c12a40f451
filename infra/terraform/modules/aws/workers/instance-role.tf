data "aws_caller_identity" "this" {}
data "aws_partition" "this" {}
data "aws_region" "this" {}

locals {
  tags       = merge(var.tags, { "mst:pool" = var.name })
  group_name = "${var.name}-workers"
  namespace  = "mst"
  here = {
    partition  = data.aws_partition.this.partition
    account_id = data.aws_caller_identity.this.account_id
    region     = data.aws_region.this.name
  }
  store_policies = merge(
    {
      store = templatefile("${path.module}/../../../../policies/s3-worker.json.tftpl", {
        bucket_arn = var.store.arn, prefix = var.store.prefix
      })
    },
    var.store.kms_key_arn == null ? {} : {
      store-key = templatefile("${path.module}/../../../../policies/s3-key.json.tftpl", { kms_key_arn = var.store.kms_key_arn })
    },
  )
  worker_policies = merge(var.store.sessions ? {} : local.store_policies, {
    secrets = templatefile("${path.module}/policies/secrets.json.tftpl", {
      secret_arns = [var.secrets.fleet_key, var.secrets.signers, var.secrets.broker_url]
      kms_key_arn = var.secrets.kms_key_arn
    })
    own-machine = templatefile("${path.module}/policies/own-machine.json.tftpl", merge(local.here, { group = local.group_name }))
    logs        = templatefile("${path.module}/policies/logs.json.tftpl", { log_group_arn = aws_cloudwatch_log_group.this.arn })
    image       = templatefile("${path.module}/policies/image.json.tftpl", local.here)
  })
}

resource "aws_iam_role" "worker" {
  name_prefix        = "${var.name}-worker-"
  assume_role_policy = file("${path.module}/policies/instance-trust.json")
  tags               = local.tags
}

resource "aws_iam_role_policy" "worker" {
  for_each = local.worker_policies

  name   = each.key
  role   = aws_iam_role.worker.id
  policy = each.value
}

# Sessions instead of SSH: nothing listens on these machines.
resource "aws_iam_role_policy_attachment" "worker_sessions" {
  role       = aws_iam_role.worker.name
  policy_arn = "arn:${local.here.partition}:iam::aws:policy/AmazonSSMManagedInstanceCore"
}

resource "aws_iam_instance_profile" "worker" {
  name_prefix = "${var.name}-worker-"
  role        = aws_iam_role.worker.name
  tags        = local.tags
}
