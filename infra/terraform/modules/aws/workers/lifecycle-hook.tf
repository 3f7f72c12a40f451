# A machine that is asked to go may finish its units first. A spot reclaim does not wait for this: about two minutes.
resource "aws_autoscaling_lifecycle_hook" "drain" {
  name                   = "drain"
  autoscaling_group_name = aws_autoscaling_group.workers.name
  lifecycle_transition   = "autoscaling:EC2_INSTANCE_TERMINATING"
  heartbeat_timeout      = var.fleet.drain_minutes * 60
  default_result         = "CONTINUE"
}
