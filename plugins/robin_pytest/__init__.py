"""robin's entry point for pytest."""
