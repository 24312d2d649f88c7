"""Shared parts that every checkpoint ships: words, features, encoder, base model and pipeline."""
