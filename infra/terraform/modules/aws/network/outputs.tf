output "network" {
  description = "What the other modules need: `vpc_id`, `cidr`, `subnet_ids` (private)."
  value = {
    vpc_id     = aws_vpc.this.id
    cidr       = aws_vpc.this.cidr_block
    subnet_ids = [for zone in var.network.zones : aws_subnet.private[zone].id]
  }
}
