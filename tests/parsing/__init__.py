"""Tests of robin_cli.parsing."""
