"""Protocols: which data, probes and metrics answer which question."""
