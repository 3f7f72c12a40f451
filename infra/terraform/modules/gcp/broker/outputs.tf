output "broker" {
  description = "`name`, `host`, `port`. The password: `gcloud redis instances get-auth-string`."
  value = {
    name = google_redis_instance.this.name
    host = google_redis_instance.this.host
    port = google_redis_instance.this.port
  }
}

output "ca_certificates" {
  description = "Certificates of the broker's own authority, for clients that check them (public)."
  value       = google_redis_instance.this.server_ca_certs[*].cert
}
