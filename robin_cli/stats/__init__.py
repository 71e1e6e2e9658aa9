"""Statistics: scores, intervals, decisions, comparisons, rankings, agreement with people."""
