data "aws_region" "this" {}

locals {
  panels = [
    { title = "Shards", metrics = ["ShardsQueued", "ShardsRunning"] },
    { title = "Workers", metrics = ["Workers", "BacklogPerWorker"] },
    { title = "Oldest wait (s)", metrics = ["OldestWaitSeconds"] },
    { title = "Leases expired", metrics = ["LeasesExpired"] },
  ]
}

resource "aws_cloudwatch_dashboard" "this" {
  dashboard_name = var.name
  dashboard_body = jsonencode({
    widgets = [
      for index, panel in local.panels : {
        type   = "metric"
        x      = index % 2 * 12
        y      = floor(index / 2) * 6
        width  = 12
        height = 6
        properties = {
          title   = panel.title
          region  = data.aws_region.this.name
          period  = 60
          stat    = "Maximum"
          metrics = [for metric in panel.metrics : ["mst", metric, "Pool", var.name]]
        }
      }
    ]
  })
}
