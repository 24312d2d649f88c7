"""The classes of an encoder with code of its own: none here. In the folder of a model that has one they are named."""

from transformers import PreTrainedConfig, PreTrainedModel

OWN_CLASSES: tuple[type[PreTrainedConfig], type[PreTrainedModel]] | None = None
