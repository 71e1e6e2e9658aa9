"""Policies that the goal of a run chooses: no name stands for one."""
