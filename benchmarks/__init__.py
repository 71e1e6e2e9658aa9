"""Measurements run by hand; see each file."""
