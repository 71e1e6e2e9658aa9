"""Write any table of :mod:`robin_cli.results`; a module for each form: terminal, CSV and TSV, Excel, Parquet, JSON, HTML."""
