"""Analysis of trained models: pictures, kinds of errors, loss landscape, report. Nothing here ships in a checkpoint."""
