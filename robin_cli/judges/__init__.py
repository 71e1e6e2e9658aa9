"""What is asked: one interface, and one file for each way to reach a model."""
