"""Read logs of evaluation tools, and traces, as rows for robin; each tool has a module."""
