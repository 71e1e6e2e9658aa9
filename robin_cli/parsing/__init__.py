"""From the text of an answer to a rating, or the reason there is none."""
