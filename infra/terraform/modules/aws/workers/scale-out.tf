# Out by backlog per worker; in by the workers themselves, when they are idle (scale-in.md).
resource "aws_autoscaling_policy" "backlog" {
  name                   = "backlog-per-worker"
  autoscaling_group_name = aws_autoscaling_group.workers.name
  policy_type            = "TargetTrackingScaling"

  target_tracking_configuration {
    target_value     = var.fleet.backlog_target
    disable_scale_in = true

    customized_metric_specification {
      namespace   = local.namespace
      metric_name = "BacklogPerWorker"
      statistic   = "Maximum"

      metric_dimension {
        name  = "Pool"
        value = var.name
      }
    }
  }
}

# From zero: no worker, so nothing per worker. Queued shards alone decide.
resource "aws_autoscaling_policy" "first" {
  name                   = "first-worker"
  autoscaling_group_name = aws_autoscaling_group.workers.name
  policy_type            = "StepScaling"
  adjustment_type        = "ChangeInCapacity"

  step_adjustment {
    metric_interval_lower_bound = 0
    scaling_adjustment          = 1
  }
}

resource "aws_cloudwatch_metric_alarm" "first" {
  alarm_name          = "${var.name}-first-worker"
  alarm_description   = "Shards wait and nobody serves: start one machine"
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  evaluation_periods  = 1
  treat_missing_data  = "notBreaching"
  alarm_actions       = [aws_autoscaling_policy.first.arn]
  tags                = local.tags

  metric_query {
    id          = "stuck"
    expression  = "IF(workers < 1, queued, 0)"
    label       = "queued and nobody serves"
    return_data = true
  }

  dynamic "metric_query" {
    for_each = { queued = "ShardsQueued", workers = "Workers" }

    content {
      id = metric_query.key

      metric {
        namespace   = local.namespace
        metric_name = metric_query.value
        period      = 60
        stat        = "Maximum"
        dimensions  = { Pool = var.name }
      }
    }
  }
}
