"""Tests of reading pairs."""
