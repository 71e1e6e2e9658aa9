"""Tests of robin_logs."""
