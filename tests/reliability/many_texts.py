"""Resident memory of a pipeline over many short texts, as a program that measures a process of its own.

python many_texts.py FOLDER NUM_WARM NUM_TEXTS      FOLDER holds a model and its tokenizer

Prints JSON: texts answered, entities found, and the bytes by which memory grew between the first number and the second.
"""

import gc
import json
import random
import resource
import sys
from pathlib import Path

import torch
from transformers import pipeline

import hf_spanner

WORDS = ["Ana", "met", "Bo", "in", "Oslo", "and", "then", "they", "walked", "to", "Lake", "Tarn", ".", "it", "rained"]


def main(folder: str, num_warm: int, num_texts: int) -> None:
    """Answer the texts of a generator and print what was measured."""
    torch.set_num_threads(1)
    assert hf_spanner.METHODS  # reading it registers them
    draw = random.Random(0)
    texts = (" ".join(draw.choices(WORDS, k=draw.randint(1, 8))) for _ in range(num_texts))
    num_answers = num_entities = before = 0
    for entities in pipeline("span-ner", model=folder, device="cpu")(texts):
        num_answers, num_entities = num_answers + 1, num_entities + len(entities)
        if num_answers == num_warm:
            before = resident_bytes()
    growth = resident_bytes() - before
    sys.stdout.write(json.dumps({"texts": num_answers, "entities": num_entities, "growth": growth}))


def resident_bytes() -> int:
    """The memory of this process that is really there."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
