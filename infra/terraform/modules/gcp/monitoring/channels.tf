resource "google_monitoring_notification_channel" "email" {
  for_each = toset(var.alarms.emails)

  project      = var.place.project
  display_name = "mst ${var.name}: ${each.key}"
  type         = "email"
  labels       = { email_address = each.key }
}
