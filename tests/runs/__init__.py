"""Tests of robin_cli.runs."""
