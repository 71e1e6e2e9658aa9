"""Tests of robin_cli.session."""
