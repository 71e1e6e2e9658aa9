"""Tests here run where the tools are installed: `make test-beside`, without this file."""

collect_ignore_glob = ["test_*.py"]
