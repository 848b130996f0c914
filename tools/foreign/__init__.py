"""Comparisons of our metrics with the code of others: a module for each instrument, run by `tools/agreement.py`."""
