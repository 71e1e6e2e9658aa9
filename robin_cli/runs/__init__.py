"""The run directory and the loop that fills it."""
