"""Tests of robin_cli.planning."""
