"""Tests of robin_cli.statistics."""
