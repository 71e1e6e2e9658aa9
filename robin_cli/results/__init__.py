"""Results as data: tables with declared columns. :mod:`robin_cli.results.columns` declares all that is public."""
