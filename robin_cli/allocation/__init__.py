"""Choosing the next call: pure numpy, no I/O, no clock, no await."""
