"""Goals: what a user wants to know of a run. A session asks its goal, and never which one it is."""
