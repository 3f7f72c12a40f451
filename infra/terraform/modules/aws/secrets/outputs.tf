output "secrets" {
  description = "ARNs of the boxes (`fleet_key`, `signers`, `broker_url`) and of their key (`kms_key_arn`)."
  value = {
    fleet_key   = aws_secretsmanager_secret.this["fleet-key"].arn
    signers     = aws_secretsmanager_secret.this["signers"].arn
    broker_url  = aws_secretsmanager_secret.this["broker-url"].arn
    kms_key_arn = local.kms_key_arn
  }
}
