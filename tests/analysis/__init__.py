"""Tests of robin_cli.analysis."""
