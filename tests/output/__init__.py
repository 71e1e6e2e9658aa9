"""Tests of robin_cli.output."""
