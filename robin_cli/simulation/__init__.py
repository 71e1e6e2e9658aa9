"""Simulation: policies spend budgets on judges whose answers are known, or drawn from what is known of them."""
