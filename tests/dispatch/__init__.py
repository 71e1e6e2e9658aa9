"""Tests of robin_cli.dispatch."""
