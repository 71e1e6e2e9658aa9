"""From settings, or a run directory, to a run at work: what the command line and Python both call."""
