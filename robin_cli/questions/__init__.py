"""Questions to a judge, and how their answers are read."""
