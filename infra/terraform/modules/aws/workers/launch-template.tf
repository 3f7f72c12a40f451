locals {
  boot = {
    region     = local.here.region
    image      = var.image
    store_uri  = var.store.uri
    broker_url = var.secrets.broker_url
    log_group  = aws_cloudwatch_log_group.this.name
  }
  worker_command = join(" ", concat(
    ["worker", "--trusted", "--cloud", "aws", "--slots", var.fleet.slots, "--idle-minutes", var.fleet.idle_minutes],
    var.fleet.class == null ? [] : ["--class", var.fleet.class],
    flatten([for work in var.fleet.works : ["--work", work]]),
  ))
}

resource "aws_launch_template" "worker" {
  name_prefix            = "${var.name}-worker-"
  description            = "mst worker; settings change with a new version of this template"
  image_id               = var.machines.machine_image
  instance_type          = var.machines.types[0]
  update_default_version = true
  user_data = base64encode(templatefile("${path.module}/templates/boot.sh.tftpl", merge(local.boot, {
    role      = "worker"
    command   = local.worker_command
    restart   = "on-failure"
    drain_s   = var.fleet.drain_minutes * 60
    key_files = { "fleet.key" = var.secrets.fleet_key, "signers.json" = var.secrets.signers }
  })))

  iam_instance_profile {
    arn = aws_iam_instance_profile.worker.arn
  }

  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
    instance_metadata_tags      = "disabled"
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
      volume_size           = var.machines.disk_gib
      volume_type           = "gp3"
      delete_on_termination = true
    }
  }

  monitoring {
    enabled = true
  }

  tag_specifications {
    resource_type = "instance"
    tags          = merge(local.tags, { Name = local.group_name })
  }

  tag_specifications {
    resource_type = "volume"
    tags          = local.tags
  }

  tags = local.tags
}
