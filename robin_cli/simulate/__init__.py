"""Simulation: policies spend budgets on judges whose answers are recorded, or drawn from a belief about them."""
