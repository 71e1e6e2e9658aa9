"""The choice of the next call: plan() and tell(), the budget, and when to stop; no I/O, no clock, no await."""
