"""From the numbers of an arm to the priority of its next call: pure numpy, no I/O, no clock, no await."""
