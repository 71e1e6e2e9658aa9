"""robin report: one HTML file that shows a run, or two side by side."""
