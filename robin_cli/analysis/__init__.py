"""What ratings say: scores, intervals, agreement, simulation, forecasts."""
