"""When a call may be made, and where: limits, retries and failover around judges."""
