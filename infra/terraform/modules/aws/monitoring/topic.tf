locals {
  tags = merge(var.tags, { "mst:pool" = var.name })
}

resource "aws_sns_topic" "this" {
  name              = "${var.name}-alarms"
  kms_master_key_id = var.alarms.topic_kms_key
  tags              = local.tags
}

resource "aws_sns_topic_subscription" "email" {
  for_each = toset(var.alarms.emails)

  topic_arn = aws_sns_topic.this.arn
  protocol  = "email"
  endpoint  = each.key
}
