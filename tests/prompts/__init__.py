"""Tests of robin_cli.prompts."""
