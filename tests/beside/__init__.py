"""Tests beside other tools, which `make test-beside` installs apart from those of robin."""
