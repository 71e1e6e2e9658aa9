"""The judge: what it is asked, how, and what its answer says."""
