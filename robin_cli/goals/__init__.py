"""Goals: what a user wants to know of a run. Nothing outside this folder asks which goal a run has."""
