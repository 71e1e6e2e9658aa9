"""Tests of robin_cli.allocation."""
