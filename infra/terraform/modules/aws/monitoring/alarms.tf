# One row an alarm: what is measured, when it is too much, and what the runbook calls it (docs/how-to/operate-a-fleet.md).
locals {
  broker_nodes = [for n in range(var.watch.broker_nodes) : format("%s-%03d", var.watch.broker_id, n + 1)]
  fleet_alarms = {
    stuck = {
      description = "Shards wait too long: see 'Stuck run'"
      metric      = "OldestWaitSeconds", comparison = "GreaterThanThreshold", threshold = var.alarms.oldest_wait_minutes * 60
      periods     = 3, missing = "notBreaching"
    }
    silent = {
      description = "Nobody publishes the scaling signal: see 'Lost broker' and the scaler's log"
      metric      = "Workers", comparison = "LessThanThreshold", threshold = 0
      periods     = 5, missing = "breaching"
    }
    expired-leases = {
      description = "Workers die or lose the broker: see 'Lost broker'"
      metric      = "LeasesExpired", comparison = "GreaterThanThreshold", threshold = 3
      periods     = 3, missing = "notBreaching"
    }
  }
  broker_alarms = {
    memory      = { metric = "DatabaseMemoryUsagePercentage", threshold = var.alarms.broker_memory_pct, description = "The broker fills up, and will refuse work: see 'Full disk'" }
    evictions   = { metric = "Evictions", threshold = 0, description = "The broker drops keys: its policy is not noeviction" }
    cpu         = { metric = "EngineCPUUtilization", threshold = 80, description = "The broker is too small for so many workers" }
    connections = { metric = "CurrConnections", threshold = 50000, description = "Too many connections to the broker" }
  }
}

resource "aws_cloudwatch_metric_alarm" "fleet" {
  for_each = local.fleet_alarms

  alarm_name          = "${var.name}-${each.key}"
  alarm_description   = each.value.description
  namespace           = "mst"
  metric_name         = each.value.metric
  dimensions          = { Pool = var.name }
  statistic           = "Maximum"
  period              = 60
  comparison_operator = each.value.comparison
  threshold           = each.value.threshold
  evaluation_periods  = each.value.periods
  treat_missing_data  = each.value.missing
  alarm_actions       = [aws_sns_topic.this.arn]
  ok_actions          = [aws_sns_topic.this.arn]
  tags                = local.tags
}

resource "aws_cloudwatch_metric_alarm" "broker" {
  for_each = { for pair in setproduct(local.broker_nodes, keys(local.broker_alarms)) : "${pair[0]}-${pair[1]}" => { node = pair[0], kind = pair[1] } }

  alarm_name          = "${var.name}-broker-${each.key}"
  alarm_description   = local.broker_alarms[each.value.kind].description
  namespace           = "AWS/ElastiCache"
  metric_name         = local.broker_alarms[each.value.kind].metric
  dimensions          = { CacheClusterId = each.value.node }
  statistic           = "Maximum"
  period              = 60
  comparison_operator = "GreaterThanThreshold"
  threshold           = local.broker_alarms[each.value.kind].threshold
  evaluation_periods  = 3
  alarm_actions       = [aws_sns_topic.this.arn]
  ok_actions          = [aws_sns_topic.this.arn]
  tags                = local.tags
}
