output "store_uri" {
  description = "MST_STORE of coordinators."
  value       = module.store.store.uri
}

output "broker" {
  description = "What `scripts/set-broker-password` needs."
  value       = merge(module.broker.broker, { acl = module.broker.acl })
}

output "secrets" {
  description = "The boxes to fill."
  value       = module.secrets.secrets
}

output "workers" {
  description = "Scaling groups, log group, queues."
  value       = module.workers.workers
}
