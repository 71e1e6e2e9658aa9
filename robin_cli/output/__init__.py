"""Scores, exports and progress: what a run is turned into."""
