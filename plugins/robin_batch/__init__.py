"""Judges at batch services: calls go out in rounds, as files of requests, at half the price."""
