"""Tests of robin_cli.policies."""
