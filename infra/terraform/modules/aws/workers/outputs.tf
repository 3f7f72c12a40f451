output "workers" {
  description = "`group` and `scaler_group` (scaling groups), `security_group`, `log_group`, `role_arn`, `queues`."
  value = {
    group          = aws_autoscaling_group.workers.name
    scaler_group   = aws_autoscaling_group.scaler.name
    security_group = aws_security_group.this.id
    log_group      = aws_cloudwatch_log_group.this.name
    role_arn       = aws_iam_role.worker.arn
    queues         = local.queues
  }
}
