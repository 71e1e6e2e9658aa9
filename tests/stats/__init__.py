"""Tests of robin_cli.stats."""
