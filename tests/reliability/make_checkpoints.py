"""Write the tiny checkpoints that later versions must load and answer as this one does.

python tests/reliability/make_checkpoints.py      only when the format of checkpoints is meant to change

For each method `tests/fixtures/checkpoints/<method>/` gets a random model, its tokenizer and `answers.json`. The source
files of a checkpoint are left out: installed classes read these folders.
"""

import json
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast, set_seed

from hf_spanner import METHODS, SpanNERPipeline

FOLDER = Path(__file__).parents[1] / "fixtures" / "checkpoints"
LABELS = ("LOC", "ORG", "PER")
TEXTS = [
    "Ana met Bo in Oslo .",
    "",
    "Mira Stone, who works for the Bank of Oslo, visited Zo\u00eb's sister.",
    "a bb ccc " * 12,
]
FIELDS = {
    "boundary_smoothing": {
        "affine_size": 8,
        "width_embedding_size": 4,
        "max_width": 6,
        "overlap": "nested",
        "calibration": {
            "kind": "platt",
            "all": {"slope": 0.8, "intercept": -0.25},
            "per_label": {"PER": {"slope": 1.5, "intercept": 0.5}},
            "fitted_on": {"name": "dev", "num_rows": 3, "fingerprint": "ab"},
        },
    },
    "bopn": {"biaffine_size": 8, "region_embedding_size": 4, "decode_mode": "all", "temperature": 2.0},
    "diffusion_ner": {
        "lstm_layers": 0,
        "num_spans": 8,
        "num_train_spans": 8,
        "num_decoder_layers": 1,
        "feedforward_size": 16,
        "phi": 0.0,
    },
    "locate_and_label": {"head_size": 8, "nms_threshold": 0.0, "threshold": 0.1},
}
NONE_BIASES = {
    "boundary_smoothing": "biaffine.bias",
    "bopn": "convolutions.output.bias",
    "diffusion_ner": "denoiser.types.2.bias",
    "locate_and_label": "classifier.output_layer.bias",
}


def main() -> None:
    """Write all of them anew."""
    torch.set_num_threads(1)
    shutil.rmtree(FOLDER, ignore_errors=True)
    for method, fields in FIELDS.items():
        write_checkpoint(method, fields, FOLDER / method)
        size = sum(path.stat().st_size for path in (FOLDER / method).iterdir())
        sys.stdout.write(f"{method}: {size:,} bytes\n")


def write_checkpoint(method: str, fields: dict, folder: Path) -> None:
    """A random model that finds entities in the texts, its tokenizer, and what it finds."""
    tokenizer = character_tokenizer()
    set_seed(1)
    with TemporaryDirectory() as encoder:
        config = BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            max_position_embeddings=66,
        )
        BertModel(config).save_pretrained(encoder)
        model = METHODS[method].from_encoder(encoder, labels=LABELS, lstm_size=8, **fields).eval()
    model.get_parameter(NONE_BIASES[method]).data[-1] = -5.0
    tagger = SpanNERPipeline(model=model, tokenizer=tokenizer)
    answers = [{"text": text, "entities": tagger(text)} for text in TEXTS]
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    for path in folder.glob("*.py"):
        path.unlink()
    (folder / "answers.json").write_text(json.dumps(answers) + "\n", encoding="utf-8")


def character_tokenizer() -> PreTrainedTokenizerFast:
    """Letters and their continuations, which is all that a random model needs."""
    letters = "abcdefghijklmnopqrstuvwxyz.,'"
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )


if __name__ == "__main__":
    main()
