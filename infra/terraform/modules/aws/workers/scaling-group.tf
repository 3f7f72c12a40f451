resource "aws_autoscaling_group" "workers" {
  name                = local.group_name
  min_size            = var.fleet.min
  max_size            = var.fleet.max
  vpc_zone_identifier = var.network.subnet_ids

  # A worker takes its protection off when it has no shard (scale-in.md).
  protect_from_scale_in     = true
  capacity_rebalance        = var.machines.spot_percent > 0
  default_instance_warmup   = var.fleet.boot_s
  health_check_type         = "EC2"
  health_check_grace_period = var.fleet.boot_s
  termination_policies      = ["OldestLaunchTemplate", "OldestInstance"]

  mixed_instances_policy {
    instances_distribution {
      on_demand_base_capacity                  = var.machines.on_demand_base
      on_demand_percentage_above_base_capacity = 100 - var.machines.spot_percent
      spot_allocation_strategy                 = "price-capacity-optimized"
    }

    launch_template {
      launch_template_specification {
        launch_template_id = aws_launch_template.worker.id
        version            = aws_launch_template.worker.latest_version
      }

      dynamic "override" {
        for_each = var.machines.types

        content {
          instance_type = override.value
        }
      }
    }
  }

  dynamic "tag" {
    for_each = merge(local.tags, { Name = local.group_name })

    content {
      key                 = tag.key
      value               = tag.value
      propagate_at_launch = true
    }
  }

  lifecycle {
    ignore_changes = [desired_capacity]
  }
}
