"""Tests of robin_cli.views."""
