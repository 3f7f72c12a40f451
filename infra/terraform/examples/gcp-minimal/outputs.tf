output "store_uri" {
  description = "MST_STORE of coordinators."
  value       = module.store.store.uri
}

output "broker" {
  description = "Name, host and port of the broker."
  value       = module.broker.broker
}

output "broker_ca" {
  description = "The authority of the broker's certificate, for your own machine (public)."
  value       = join("\n", module.broker.ca_certificates)
}

output "secrets" {
  description = "The boxes to fill."
  value       = module.secrets.secrets
}

output "workers" {
  description = "Managed group, scaler, queues."
  value       = module.workers.workers
}
