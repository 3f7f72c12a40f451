output "broker" {
  description = "Where the broker is, and what it is called: `host` (the TLS server name), `port`, `user_id`, `user_name`, `id`. No password: Terraform has none."
  value = {
    id        = aws_elasticache_replication_group.this.replication_group_id
    host      = aws_elasticache_replication_group.this.primary_endpoint_address
    port      = 6379
    user_id   = aws_elasticache_user.fleet.user_id
    user_name = aws_elasticache_user.fleet.user_name
  }
}

output "acl" {
  description = "Access rules of the fleet's user, for `scripts/set-broker-password`."
  value       = trimspace(file("${path.module}/policies/broker-acl.txt"))
}
