"""Tests of robin_cli.questions."""
