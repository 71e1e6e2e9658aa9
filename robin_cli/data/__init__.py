"""Files of every kind, and what they hold: pairs, labels and pools of ratings."""
