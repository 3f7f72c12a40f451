"""What isolates one trial from this machine and from other trials."""
