output "channels" {
  description = "Where alarms are sent."
  value       = local.channels
}
