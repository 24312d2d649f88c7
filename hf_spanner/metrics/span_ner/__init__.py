"""The span_ner metric: strict and boundary F1 with calibration error."""
