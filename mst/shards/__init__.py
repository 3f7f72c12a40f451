"""Split, bundle, protocol, shard worker, supervisor, channels."""
