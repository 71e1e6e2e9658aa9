"""Tests of robin_cli.storage."""
