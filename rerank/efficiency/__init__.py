"""What a configuration costs: pairs per second, latency, conditions, and the frontier."""
