"""Logs of Inspect, lm-evaluation-harness, AlpacaEval and HELM as rows for robin: a module for each tool."""
