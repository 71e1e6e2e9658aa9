"""Tests of robin_cli.run."""
