"""Tests of robin_cli.runner."""
