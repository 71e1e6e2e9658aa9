"""Goals: what a user wants to know of a run. A session calls its goal, whichever it is."""
