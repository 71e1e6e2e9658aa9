"""Make calls on other machines: groups of requests and replies, supervised workers, and Ray."""
