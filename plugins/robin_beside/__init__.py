"""robin in process beside other tools: import the module of yours, and robin_cli.Settled."""
