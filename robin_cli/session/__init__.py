"""A session of a run: it opens a run, chooses calls, makes them and keeps the answers."""
