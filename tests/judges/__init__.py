"""Tests of robin_cli.judges."""
