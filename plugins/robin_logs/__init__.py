"""Logs of evaluation tools, and traces, as rows for robin: a module for each tool."""
