"""Tests of judging: what a judge is asked and what its answer says."""
