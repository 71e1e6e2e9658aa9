"""``robin plan``: the calls, time, money and accuracy of a budget, before it is spent."""
