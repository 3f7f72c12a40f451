resource "google_billing_budget" "this" {
  count = var.alarms.monthly_usd > 0 ? 1 : 0

  billing_account = var.alarms.billing_account
  display_name    = "mst ${var.name}"

  budget_filter {
    projects = ["projects/${var.place.project}"]
    labels   = { mst-pool = var.name }
  }

  amount {
    specified_amount {
      currency_code = "USD"
      units         = tostring(var.alarms.monthly_usd)
    }
  }

  dynamic "threshold_rules" {
    for_each = [0.5, 0.8, 1.0]

    content {
      threshold_percent = threshold_rules.value
    }
  }

  all_updates_rule {
    monitoring_notification_channels = local.channels
  }
}
