"""Logs of evaluation tools as rows: a module each."""
