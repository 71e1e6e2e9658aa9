"""robin label: a local page at which people label the pairs of a run."""
