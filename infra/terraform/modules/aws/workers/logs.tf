resource "aws_cloudwatch_log_group" "this" {
  #checkov:skip=CKV_AWS_158:logs hold run, shard and attempt, no content; encrypted with the service's own key
  #checkov:skip=CKV_AWS_338:how long is the operator's choice (log_days)
  name              = "/mst/${var.name}/workers"
  retention_in_days = var.fleet.log_days
  tags              = local.tags
}
