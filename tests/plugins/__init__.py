"""Tests of the plug-ins that robin's wheel brings."""
