resource "aws_s3_bucket_policy" "this" {
  bucket = aws_s3_bucket.this.id
  policy = templatefile("${path.module}/../../../../policies/s3-bucket.json.tftpl", { bucket_arn = aws_s3_bucket.this.arn })

  depends_on = [aws_s3_bucket_public_access_block.this]
}
