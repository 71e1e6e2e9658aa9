"""Pairs and pools of ratings, out of files."""
