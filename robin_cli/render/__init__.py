"""Any table of :mod:`robin_cli.results`, in one module for each form: terminal, CSV and TSV, Excel, Parquet, JSON, HTML."""
