"""Judges: their interface, and a file for each way to reach a model."""
