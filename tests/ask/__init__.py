"""Tests of robin_cli.ask."""
