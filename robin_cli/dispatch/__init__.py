"""Limits, retries and failover around judges."""
