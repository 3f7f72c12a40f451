"""One trial: client to transcript, artifacts, record."""
