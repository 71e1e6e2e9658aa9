"""Questions: how a call asks a judge, and how its answer is read."""
