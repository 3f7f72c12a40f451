output "store_uri" {
  description = "MST_STORE of coordinators."
  value       = module.store.store.uri
}

output "store_role" {
  description = "MST_STORE_ROLE of coordinators."
  value       = module.store.store.shard_role_arn
}

output "policies" {
  description = "ARNs of policies to attach: `coordinator` to who runs evals, `keeper` to who runs `mst store verify` and `gc`."
  value       = module.store.policies
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
  description = "Scaling groups, log group, queues, by pool."
  value       = { for kind, pool in module.workers : kind => pool.workers }
}
