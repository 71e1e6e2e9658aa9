"""Read logs of evaluation tools as rows for robin; each tool has a module."""
