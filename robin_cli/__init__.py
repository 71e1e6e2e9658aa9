"""robin: spends a fixed budget of LLM-judge calls where the ratings vary most."""

__version__ = "0.1.0"
