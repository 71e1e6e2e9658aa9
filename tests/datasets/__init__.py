"""Tests of robin_cli.datasets."""
