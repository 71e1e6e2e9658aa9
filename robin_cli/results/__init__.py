"""Results as data: tables with declared columns. What is public of a result is declared in :mod:`robin_cli.results.columns`."""
