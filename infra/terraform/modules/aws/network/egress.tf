# The way out, for judges that call a model. There is no way in.
locals {
  has_egress = var.network.egress != "none"
  nat_zones = (
    var.network.egress == "nat-per-zone" ? local.zones :
    var.network.egress == "nat" ? { (var.network.zones[0]) = 0 } : {}
  )
}

resource "aws_internet_gateway" "this" {
  count = local.has_egress ? 1 : 0

  vpc_id = aws_vpc.this.id
  tags   = merge(local.tags, { Name = var.name })
}

resource "aws_subnet" "public" {
  for_each = local.nat_zones

  vpc_id                  = aws_vpc.this.id
  availability_zone       = each.key
  cidr_block              = cidrsubnet(var.network.cidr, 4, 8 + each.value)
  map_public_ip_on_launch = false
  tags                    = merge(local.tags, { Name = "${var.name}-nat-${each.key}" })
}

resource "aws_route_table" "public" {
  count = local.has_egress ? 1 : 0

  vpc_id = aws_vpc.this.id
  tags   = merge(local.tags, { Name = "${var.name}-nat" })
}

resource "aws_route" "public" {
  count = local.has_egress ? 1 : 0

  route_table_id         = aws_route_table.public[0].id
  destination_cidr_block = "0.0.0.0/0"
  gateway_id             = aws_internet_gateway.this[0].id
}

resource "aws_route_table_association" "public" {
  for_each = local.nat_zones

  subnet_id      = aws_subnet.public[each.key].id
  route_table_id = aws_route_table.public[0].id
}

resource "aws_eip" "nat" {
  #checkov:skip=CKV2_AWS_19:the address belongs to a NAT gateway; no instance has a public address
  for_each = local.nat_zones

  domain = "vpc"
  tags   = merge(local.tags, { Name = "${var.name}-nat-${each.key}" })
}

resource "aws_nat_gateway" "this" {
  for_each = local.nat_zones

  allocation_id = aws_eip.nat[each.key].id
  subnet_id     = aws_subnet.public[each.key].id
  tags          = merge(local.tags, { Name = "${var.name}-${each.key}" })

  depends_on = [aws_internet_gateway.this]
}

resource "aws_route" "private" {
  for_each = local.has_egress ? local.zones : {}

  route_table_id         = aws_route_table.private[each.key].id
  destination_cidr_block = "0.0.0.0/0"
  nat_gateway_id = try(
    aws_nat_gateway.this[each.key].id,
    aws_nat_gateway.this[var.network.zones[0]].id,
  )
}
