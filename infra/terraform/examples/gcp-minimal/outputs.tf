output "store_uri" {
  description = "MST_STORE of coordinators."
  value       = module.store.store.uri
}

output "broker" {
  description = "Name, host and port of the broker."
  value       = module.broker.broker
}

output "secrets" {
  description = "The boxes to fill."
  value       = module.secrets.secrets
}

output "workers" {
  description = "Managed group, scaler, queues."
  value       = module.workers.workers
}
