# What each alarm asks for is in docs/how-to/operate-a-fleet.md, under the name it has here.
locals {
  channels = [for channel in google_monitoring_notification_channel.email : channel.id]
  pool     = "metric.labels.pool = \"${var.name}\" AND resource.type = \"generic_task\""
  alarms = {
    stuck  = { filter = "metric.type = \"custom.googleapis.com/mst/oldest_wait_seconds\" AND ${local.pool}", above = var.alarms.oldest_wait_minutes * 60, text = "Shards wait too long: see 'Stuck run'" }
    memory = { filter = "metric.type = \"redis.googleapis.com/stats/memory/usage_ratio\" AND resource.type = \"redis_instance\"", above = var.alarms.broker_memory_pct / 100, text = "The broker fills up: see 'Full disk'" }
  }
}

resource "google_monitoring_alert_policy" "above" {
  for_each = local.alarms

  project               = var.place.project
  display_name          = "mst ${var.name}: ${each.key}"
  combiner              = "OR"
  notification_channels = local.channels

  conditions {
    display_name = each.key

    condition_threshold {
      filter          = each.value.filter
      comparison      = "COMPARISON_GT"
      threshold_value = each.value.above
      duration        = "180s"

      aggregations {
        alignment_period   = "60s"
        per_series_aligner = "ALIGN_MAX"
      }
    }
  }

  documentation {
    content = each.value.text
  }
}

resource "google_monitoring_alert_policy" "silent" {
  project               = var.place.project
  display_name          = "mst ${var.name}: silent"
  combiner              = "OR"
  notification_channels = local.channels

  conditions {
    display_name = "nobody publishes the scaling signal"

    condition_absent {
      filter   = "metric.type = \"custom.googleapis.com/mst/workers\" AND ${local.pool}"
      duration = "300s"

      aggregations {
        alignment_period   = "60s"
        per_series_aligner = "ALIGN_MAX"
      }
    }
  }
}
