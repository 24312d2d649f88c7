"""Thin adapters to other packages, each behind its own extra."""
