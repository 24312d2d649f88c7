"""Fitting of calibration maps, and thresholds with a promise. Nothing here ships in a checkpoint."""
