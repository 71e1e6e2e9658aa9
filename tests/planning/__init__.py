"""Tests of robin_cli.scheduling."""
