"""Metrics that load by folder, without the package."""
