"""Tests of robin_cli.data."""
