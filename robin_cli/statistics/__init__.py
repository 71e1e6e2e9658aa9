"""Intervals, bounds and agreement: pure functions of numbers."""
