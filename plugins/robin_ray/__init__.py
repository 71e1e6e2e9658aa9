"""Calls made on other machines: questions and answers in groups, workers that are looked after, and Ray."""
