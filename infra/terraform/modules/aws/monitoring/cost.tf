# Of what carries the pool's tag (activate `mst:pool` as a cost allocation tag once).
resource "aws_budgets_budget" "this" {
  count = var.alarms.monthly_usd > 0 ? 1 : 0

  name         = var.name
  budget_type  = "COST"
  limit_amount = tostring(var.alarms.monthly_usd)
  limit_unit   = "USD"
  time_unit    = "MONTHLY"

  cost_filter {
    name   = "TagKeyValue"
    values = [format("user:mst:pool$%s", var.name)]
  }

  dynamic "notification" {
    for_each = { 50 = "ACTUAL", 80 = "ACTUAL", 100 = "FORECASTED" }

    content {
      comparison_operator        = "GREATER_THAN"
      threshold                  = notification.key
      threshold_type             = "PERCENTAGE"
      notification_type          = notification.value
      subscriber_email_addresses = var.alarms.emails
    }
  }
}
