# One small machine that is always there: it publishes the scaling signal (somebody must while there are no workers),
# sends lost shards again, and is the way in for a laptop (a session that forwards the broker's port).
locals {
  scaler_policies = merge(local.store_policies, {
    secrets = templatefile("${path.module}/policies/secrets.json.tftpl", {
      secret_arns = [var.secrets.broker_url], kms_key_arn = var.secrets.kms_key_arn
    })
    metrics = templatefile("${path.module}/policies/metrics.json.tftpl", { namespace = local.namespace })
    logs    = local.worker_policies.logs
    image   = local.worker_policies.image
  })
  queues = [
    for work in var.fleet.works :
    join(".", compact(["mst", work, var.fleet.class, var.fleet.version]))
  ]
}

resource "aws_iam_role" "scaler" {
  name_prefix        = "${var.name}-scaler-"
  assume_role_policy = file("${path.module}/policies/instance-trust.json")
  tags               = local.tags
}

resource "aws_iam_role_policy" "scaler" {
  for_each = local.scaler_policies

  name   = each.key
  role   = aws_iam_role.scaler.id
  policy = each.value
}

resource "aws_iam_role_policy_attachment" "scaler_sessions" {
  role       = aws_iam_role.scaler.name
  policy_arn = "arn:${local.here.partition}:iam::aws:policy/AmazonSSMManagedInstanceCore"
}

resource "aws_iam_instance_profile" "scaler" {
  name_prefix = "${var.name}-scaler-"
  role        = aws_iam_role.scaler.name
  tags        = local.tags
}

resource "aws_launch_template" "scaler" {
  name_prefix            = "${var.name}-scaler-"
  description            = "mst fleet scale"
  image_id               = var.machines.machine_image
  instance_type          = var.machines.scaler_type
  update_default_version = true
  user_data = base64encode(templatefile("${path.module}/templates/boot.sh.tftpl", merge(local.boot, {
    role      = "scaler"
    command   = join(" ", concat(["fleet", "scale", "--every", 30, "--publish", "cloudwatch", "--pool", var.name, "--slots", var.fleet.slots, "--janitor"], flatten([for queue in local.queues : ["--queue", queue]])))
    restart   = "always"
    drain_s   = 30
    key_files = {}
  })))

  iam_instance_profile {
    arn = aws_iam_instance_profile.scaler.arn
  }

  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  network_interfaces {
    associate_public_ip_address = false
    delete_on_termination       = true
    security_groups             = [aws_security_group.this.id]
  }

  block_device_mappings {
    device_name = "/dev/xvda"

    ebs {
      encrypted             = true
      kms_key_id            = var.machines.disk_kms_key
      volume_size           = 20
      volume_type           = "gp3"
      delete_on_termination = true
    }
  }

  tag_specifications {
    resource_type = "instance"
    tags          = merge(local.tags, { Name = "${var.name}-scaler" })
  }

  tags = local.tags
}

resource "aws_autoscaling_group" "scaler" {
  name                = "${var.name}-scaler"
  min_size            = 1
  max_size            = 1
  vpc_zone_identifier = var.network.subnet_ids
  health_check_type   = "EC2"

  launch_template {
    id      = aws_launch_template.scaler.id
    version = aws_launch_template.scaler.latest_version
  }

  dynamic "tag" {
    for_each = merge(local.tags, { Name = "${var.name}-scaler" })

    content {
      key                 = tag.key
      value               = tag.value
      propagate_at_launch = true
    }
  }
}
