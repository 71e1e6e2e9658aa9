"""Judges: their interface, a file for each way to reach a model; limits, retries and failover around them."""
