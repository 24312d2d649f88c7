"""Training: collator, trainer, recipes, model cards. Nothing here ships in a checkpoint."""
