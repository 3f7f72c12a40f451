locals {
  flow_logs = var.network.flow_log_days > 0 ? 1 : 0
}

resource "aws_cloudwatch_log_group" "flow" {
  #checkov:skip=CKV_AWS_158:addresses and ports only; encrypted with the service's own key
  #checkov:skip=CKV_AWS_338:how long is the operator's choice (flow_log_days)
  count = local.flow_logs

  name              = "/mst/${var.name}/flow"
  retention_in_days = var.network.flow_log_days
  tags              = local.tags
}

resource "aws_iam_role" "flow" {
  count = local.flow_logs

  name_prefix        = "${var.name}-flow-"
  assume_role_policy = file("${path.module}/policies/flow-logs-trust.json")
  tags               = local.tags
}

resource "aws_iam_role_policy" "flow" {
  count = local.flow_logs

  name   = "write-flow-logs"
  role   = aws_iam_role.flow[0].id
  policy = templatefile("${path.module}/policies/flow-logs.json.tftpl", { log_group_arn = aws_cloudwatch_log_group.flow[0].arn })
}

resource "aws_flow_log" "this" {
  count = local.flow_logs

  vpc_id          = aws_vpc.this.id
  traffic_type    = "REJECT"
  log_destination = aws_cloudwatch_log_group.flow[0].arn
  iam_role_arn    = aws_iam_role.flow[0].arn
  tags            = local.tags
}
