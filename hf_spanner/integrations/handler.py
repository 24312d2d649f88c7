"""`EndpointHandler` for Hugging Face inference endpoints: this file, put into a model's repository as `handler.py`.

It needs no other file of this package, since a saved model brings its source.
"""

from typing import Any

from transformers import pipeline


class EndpointHandler:
    """Answers the requests of an endpoint as the pipeline does.

    Args:
        path: The folder of the model's repository.
    """

    def __init__(self, path: str = "") -> None:
        task: Any = "span-ner"  # the library's type hints know only its own tasks
        self.ner: Any = pipeline(task, model=path, trust_remote_code=True)

    def __call__(self, data: dict[str, Any]) -> Any:
        """Entities of the texts.

        Args:
            data: `inputs`, a text, a list of texts, or with `pretokenized` lists of words; `parameters`, as in a
                pipeline's call.
        """
        return self.ner(data["inputs"], **(data.get("parameters") or {}))
