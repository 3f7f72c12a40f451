output "topic_arn" {
  description = "Where alarms are sent."
  value       = aws_sns_topic.this.arn
}
