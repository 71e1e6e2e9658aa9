"""Questions to a judge, and how answers are read."""
