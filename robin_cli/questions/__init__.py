"""Questions: how a call asks a judge, and how its answer is read. Nothing outside this folder asks which kind a run has."""
