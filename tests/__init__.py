"""Tests of robin; the layout mirrors robin_cli."""
