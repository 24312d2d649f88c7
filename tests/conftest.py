"""What all tests share: tiny encoders, three tokenizers, rows, models, pipelines, the trouble cases, and profiles."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import gc
import gzip
import json
import logging
import random
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bare_process import BareProcess, started
from hypothesis import HealthCheck, settings
from method_facts import facts_of
from perfect_pipeline import PerfectPipeline
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    AutoModel,
    AutoTokenizer,
    BertConfig,
    PreTrainedConfig,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    RobertaConfig,
    XLMRobertaConfig,
    set_seed,
)
from transformers.utils.logging import disable_progress_bar

from hf_spanner import METHODS, SpanNERModel, SpanNERPipeline

torch.set_num_threads(1)
disable_progress_bar()
# Every property test takes its number of examples from here: few and always the same ones, or those of `make fuzz`.
CHECKS = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]  # fixtures that no example changes
settings.register_profile("fast", max_examples=25, derandomize=True, deadline=None, suppress_health_check=CHECKS)
NUM_FUZZ_EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "2000"))
settings.register_profile(
    "fuzz", max_examples=NUM_FUZZ_EXAMPLES, deadline=None, print_blob=True, suppress_health_check=CHECKS
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

CASES = Path(__file__).parent / "fixtures" / "cases" / "cases.jsonl.gz"
LABELS = ("LOC", "ORG", "PER")
CORPUS = [
    "Ana met Bo in Oslo and then they walked all the way to Lake Tarn before it rained .",
    "The University of New York opened a laboratory in the north of the city last year .",
    "Mira Stone , who works for the Bank of Oslo , visited Bo Li 's sister on Monday morning .",
    "a aa aaa b bb c the fill filler fillers word words running walking unbelievable 1 2 3 10 2024",
    "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ 0123456789 . , ; : ! ? ' \" ( ) [ ] < > / -",
]
SMALL = {"lstm_size": 16}


def pytest_collection_finish() -> None:
    """Every start of a Trainer collects garbage; what was imported need not be searched again and again."""
    gc.freeze()


def wordpiece_tokenizer() -> PreTrainedTokenizerFast:
    """Like BERT's: it lowers case, strips accents, and makes an unknown symbol one piece.

    The library's trainer breaks ties another way in each process, and random models would differ with it; so the pieces
    are the letters, at the start of a word and inside, and the commonest words.
    """
    normalizer, pre_tokenizer = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    texts = map(normalizer.normalize_str, CORPUS)
    counts = Counter(word for text in texts for word, _ in pre_tokenizer.pre_tokenize_str(text))
    letters = sorted(set("".join(counts)))
    words = sorted((word for word in counts if len(word) > 1), key=lambda word: (-counts[word], word))
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [*special, *letters, *(f"##{letter}" for letter in letters), *words][:200]
    vocabulary = {piece: place for place, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.add_special_tokens(special)
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizer
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )


def bpe_tokenizer() -> PreTrainedTokenizerFast:
    """Like RoBERTa's: it works on bytes, and the blank before a word is part of its first piece."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=True)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, add_prefix_space=True, **ROBERTA_TOKENS)


def unigram_tokenizer() -> PreTrainedTokenizerFast:
    """Like XLM-RoBERTa's: it has a mark for the blank before a word and normalises compatibility forms."""
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=200, special_tokens=special, unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **ROBERTA_TOKENS)


ROBERTA_TOKENS = {
    "bos_token": "<s>",
    "cls_token": "<s>",
    "eos_token": "</s>",
    "sep_token": "</s>",
    "unk_token": "<unk>",
    "pad_token": "<pad>",
    "mask_token": "<mask>",
}
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}


def save_encoder(folder: Path, tokenizer: PreTrainedTokenizerFast, config: PreTrainedConfig) -> Path:
    """Save a random encoder and its tokenizer in one folder."""
    set_seed(0)
    AutoModel.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def encoder_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """For each kind of tokenizer, a folder with that tokenizer and a tiny random encoder (2 layers, width 32)."""
    root = tmp_path_factory.mktemp("encoders")
    wordpiece, bpe, unigram = wordpiece_tokenizer(), bpe_tokenizer(), unigram_tokenizer()
    roberta = {"max_position_embeddings": 514, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, **SIZES}
    return {
        "wordpiece": save_encoder(root / "bert", wordpiece, BertConfig(vocab_size=len(wordpiece), **SIZES)),
        "bpe": save_encoder(root / "roberta", bpe, RobertaConfig(vocab_size=len(bpe), **roberta)),
        "unigram": save_encoder(root / "xlmr", unigram, XLMRobertaConfig(vocab_size=len(unigram), **roberta)),
    }


@pytest.fixture(scope="session")
def tiny_encoder(encoder_folders: dict[str, Path]) -> Path:
    """The folder of a tiny random BERT encoder with its WordPiece tokenizer."""
    return encoder_folders["wordpiece"]


@pytest.fixture(scope="session")
def bare_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BareProcess]:
    """Runs programs where hf_spanner cannot be imported: `bare_process.run(program, *arguments, cwd=folder)`."""
    with started(tmp_path_factory.mktemp("bare")) as process:
        yield process


@pytest.fixture
def tokenizers_by_kind(encoder_folders: dict[str, Path]) -> dict[str, PreTrainedTokenizerBase]:
    """Freshly loaded tokenizers: `wordpiece`, `bpe` (byte-level) and `unigram`."""
    return {kind: AutoTokenizer.from_pretrained(folder) for kind, folder in encoder_folders.items()}


@pytest.fixture
def tokenizer(tiny_encoder: Path) -> PreTrainedTokenizerBase:
    """The WordPiece tokenizer of `tiny_encoder`, freshly loaded."""
    return AutoTokenizer.from_pretrained(tiny_encoder)


@pytest.fixture(scope="session")
def tiny_model(encoder_folders: dict[str, Path]) -> Callable[..., SpanNERModel]:
    """Makes a seeded tiny model in eval mode: `tiny_model(method, kind=..., labels=..., seed=..., **config fields)`.

    A copy is cheaper than a new model, so each is made once. Global generators are left as after making it.
    """
    made: dict[str, tuple[SpanNERModel, torch.Tensor]] = {}

    def make(
        method: str = "boundary_smoothing",
        *,
        kind: str = "wordpiece",
        labels: tuple[str, ...] = LABELS,
        seed: int = 0,
        **config: Any,
    ) -> SpanNERModel:
        settings = {**SMALL, **facts_of(method).tiny, **config}
        asked = repr((method, kind, labels, seed, sorted(settings.items())))
        if asked not in made:
            set_seed(seed)
            model = METHODS[method].from_encoder(encoder_folders[kind], labels=labels, **settings).eval()
            made[asked] = model, torch.get_rng_state()
        model, state = made[asked]
        random.seed(seed)
        np.random.seed(seed)
        torch.set_rng_state(state)
        return deepcopy(model)

    return make


@pytest.fixture(scope="session")
def whole_steps() -> Callable[[str], dict[str, Any]]:
    """Fields with which a training step of a method is the same however its batch is cut: no dropout, no sampling."""
    return lambda method: {"encoder_dropout": 0.0, **facts_of(method).whole_steps}


@pytest.fixture(scope="session")
def random_tagger(
    tiny_model: Callable[..., SpanNERModel], encoder_folders: dict[str, Path]
) -> Callable[..., SpanNERPipeline]:
    """Makes a pipeline on an untrained model that finds entities in most texts: `random_tagger(method, kind)`."""

    def make(method: str, kind: str = "wordpiece", **config: Any) -> SpanNERPipeline:
        model = tiny_model(method, kind=kind, seed=4, **facts_of(method).talkative, **config)
        model.get_parameter(facts_of(method).none_bias).data[-1] = -10.0
        return SpanNERPipeline(model=model, tokenizer=AutoTokenizer.from_pretrained(encoder_folders[kind]))

    return make


@pytest.fixture(scope="session")
def perfect_pipeline(
    tiny_model: Callable[..., SpanNERModel], encoder_folders: dict[str, Path]
) -> Iterator[Callable[..., PerfectPipeline]]:
    """Makes a pipeline that finds the gold it is given: `perfect_pipeline(kind, method, **fields)`."""
    with pytest.MonkeyPatch.context() as patch:

        def make(kind: str = "wordpiece", method: str = "boundary_smoothing", **config: Any) -> PerfectPipeline:
            tokenizer = AutoTokenizer.from_pretrained(encoder_folders[kind])
            return PerfectPipeline(tiny_model(method, kind=kind, **config), tokenizer, patch)

        yield make


@pytest.fixture
def rows() -> list[dict[str, Any]]:
    """Rows with flat, nested and one-word entities and with none; labels are those of `LABELS`."""

    def row(words: str, *entities: tuple[int, int, str]) -> dict[str, Any]:
        return {
            "tokens": words.split(),
            "entities": [{"start": start, "end": end, "label": label} for start, end, label in entities],
        }

    return [
        row("Ana met Bo Li in Oslo .", (0, 1, "PER"), (2, 4, "PER"), (5, 6, "LOC")),
        row("The University of New York opened .", (0, 5, "ORG"), (1, 5, "ORG"), (3, 5, "LOC")),
        row("it rained all the way"),
        row("Mira Stone works for the Bank of Oslo", (0, 2, "PER"), (5, 8, "ORG"), (7, 8, "LOC")),
        row("Oslo", (0, 1, "LOC")),
    ]


@pytest.fixture(scope="session")
def cases() -> Callable[[str], dict[str, Any]]:
    """Gives a trouble case by its id."""
    with gzip.open(CASES, "rt", encoding="utf-8") as file:
        by_id = {record["id"]: record for record in map(json.loads, file)}
    return by_id.__getitem__


@pytest.fixture(scope="session")
def case_files() -> Path:
    """The folder of the files of the trouble cases."""
    return CASES.parent / "files"


@pytest.fixture
def messages() -> Iterator[list[str]]:
    """What the library logs from warnings on."""
    logged: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: logged.append(record.getMessage())
    logger = logging.getLogger("transformers")
    logger.addHandler(handler)
    yield logged
    logger.removeHandler(handler)
