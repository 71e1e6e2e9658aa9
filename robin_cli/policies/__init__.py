"""Policies: they compute the priority of an arm's next call from its numbers, in pure numpy, without I/O, clock or await."""
