"""The quickstart corpus can be made again byte for byte, and keeps every promise of its README."""

import gzip
import importlib
import itertools
import json
import math
import re
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from hf_spanner.core.words import split_words

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "recipes" / "quickstart_data"
PACKAGED = ROOT / "hf_spanner" / "quickstart"
LABELS = {"EVENT", "LOC", "ORG", "PER", "WORK"}


@pytest.fixture(scope="module")
def generate():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        yield importlib.import_module("generate")


@pytest.fixture(scope="module")
def ceiling(generate: ModuleType):
    return importlib.import_module("ceiling")


@pytest.fixture(scope="module")
def corpus(generate: ModuleType):
    return generate.corpus()


@pytest.fixture(scope="module")
def rows() -> dict[str, list[dict]]:
    return {split: json_lines(PACKAGED / f"{split}.jsonl.gz") for split in ("train", "dev", "test")}


@pytest.fixture(scope="module")
def coin_records() -> list[dict]:
    return json_lines(FOLDER / "test_coins.jsonl.gz")


def json_lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


@pytest.fixture
def check(generate: ModuleType, monkeypatch: pytest.MonkeyPatch):
    """Runs the program with `--check`."""
    monkeypatch.setattr(sys, "argv", ["generate.py", "--check"])
    return generate.main


def test_committed_files_are_what_the_grammar_gives(check: Callable[[], None]):
    """This holds for whatever hash seed the tests run with, which is another one each time."""
    check()


def test_check_names_the_file_that_differs(
    check: Callable[[], None], generate: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path, text = tmp_path / "dev.jsonl.gz", generate.unpacked(PACKAGED / "dev.jsonl.gz")
    path.write_bytes(gzip.compress(text.encode() + b"\n"))
    monkeypatch.setattr(generate, "files", lambda: {PACKAGED / path.name: text, path: text})
    with pytest.raises(SystemExit, match=f"^{path} differs"):
        check()


def test_other_coins_leave_the_text_as_it_is(generate: ModuleType, corpus: dict):
    other = generate.corpus(coin_seed=generate.COIN_SEED + 1)
    for split, sentences in corpus.items():
        pairs = list(zip(sentences, other[split], strict=True))
        assert all(first.tokens == second.tokens and first.sites == second.sites for first, second in pairs)
        assert sum(first.gold != second.gold for first, second in pairs) > 0.1 * len(pairs)


def test_rows_are_well_formed(rows: dict):
    identifiers = [row["id"] for split in rows.values() for row in split]
    assert len(set(identifiers)) == len(identifiers)
    for row in itertools.chain(*rows.values()):
        assert list(row) == ["id", "document", "tokens", "entities"]
        spans = [(entity["start"], entity["end"]) for entity in row["entities"]]
        assert all(0 <= start < end <= len(row["tokens"]) for start, end in spans)
        assert len(set(spans)) == len(spans)
        assert spans == sorted(spans, key=lambda span: (span[0], -span[1]))
        assert {entity["label"] for entity in row["entities"]} <= LABELS


def test_documents_lie_in_one_piece(rows: dict):
    for split in rows.values():
        documents = [document for document, _ in itertools.groupby(row["document"] for row in split)]
        assert len(set(documents)) == len(documents)


def test_people_recur_in_a_document(rows: dict):
    names: dict[str, list[str]] = defaultdict(list)
    for row in rows["train"]:
        mentioned = {row["tokens"][entity["end"] - 1].lower() for entity in row["entities"] if entity["label"] == "PER"}
        names[row["document"]] += mentioned
    assert sum(len(document_names) > len(set(document_names)) for document_names in names.values()) > 0.6 * len(names)


def test_spans_nest_to_depth_three_and_never_cross(rows: dict, ceiling: ModuleType):
    for split in rows.values():
        assert set(ceiling.depth_counts(split)) == {1, 2, 3}
        for row in split:
            for first, second in itertools.combinations(row["entities"], 2):
                apart = first["end"] <= second["start"] or second["end"] <= first["start"]
                inside = second["end"] <= first["end"] or (
                    second["start"] == first["start"] and first["end"] <= second["end"]
                )
                assert apart or inside, row["id"]


def test_sizes_lengths_and_labels(rows: dict):
    assert {split: len(content) for split, content in rows.items()} == {"train": 2000, "dev": 400, "test": 600}
    for split in rows.values():
        lengths = [len(row["tokens"]) for row in split]
        assert min(lengths) >= 3
        assert max(lengths) <= 45
        assert 14 <= sum(lengths) / len(lengths) <= 16
        assert 0.10 <= sum(not row["entities"] for row in split) / len(split) <= 0.16
        assert {entity["label"] for row in split for entity in row["entities"]} == LABELS


def test_grammar_has_many_templates_and_kinds(generate: ModuleType):
    grammar = generate.read_grammar((FOLDER / "grammar.txt").read_text(encoding="utf-8"))
    kinds = generate.kinds_of(grammar)
    assert len(kinds) == 10
    assert sum(len(grammar[kind]) for kind in kinds) >= 60


def test_joined_text_splits_into_the_same_words(rows: dict):
    for row in itertools.chain(*rows.values()):
        text = " ".join(row["tokens"])
        assert [text[start:end] for start, end in split_words(text)] == row["tokens"]


def test_no_sentence_occurs_twice(rows: dict):
    sentences = [" ".join(row["tokens"]).lower() for split in rows.values() for row in split]
    assert len(set(sentences)) == len(sentences)


def test_every_mention_has_one_gold_span_among_spans_whose_probabilities_sum_to_one(rows: dict, coin_records: list):
    gold = {
        (row["id"], entity["start"], entity["end"], entity["label"])
        for row in rows["test"]
        for entity in row["entities"]
    }
    mentions = defaultdict(list)
    for record in coin_records:
        mentions[record["id"], record["mention"]].append(record)
    for options in mentions.values():
        assert math.fsum(option["probability"] for option in options) == pytest.approx(1.0)
        assert sum((o["id"], o["start"], o["end"], o["label"]) in gold for o in options) == 1
        assert (len(options) == 1) == (options[0]["construction"] == "none")
    assert len(mentions) == len(gold)


def test_possible_spans_are_all_different(coin_records: list):
    spans = [(record["id"], record["start"], record["end"]) for record in coin_records]
    assert len(set(spans)) == len(spans)


def test_a_third_of_the_entities_carries_a_coin(corpus: dict):
    for sentences in corpus.values():
        sites = [site for sentence in sentences for site in sentence.sites]
        coined = sum(bool(site.mention.before or site.mention.after) for site in sites)
        assert 0.25 <= coined / len(sites) <= 0.35


def test_a_word_that_a_coin_can_claim_is_never_beside_a_mention_without_its_coin(corpus: dict):
    lexicon = importlib.import_module("lexicon")
    titles = {bare(title) for choices in lexicon.TITLES.values() for title in choices}
    before = {"the", *titles, *lexicon.PERSON_QUALIFIERS, *lexicon.PLACE_QUALIFIERS}
    after = {noun for nouns in lexicon.MODIFIER_NOUNS.values() for noun in nouns}
    suffixes = {bare(suffix) for suffix in lexicon.PERSON_SUFFIXES + lexicon.COMPANY_SUFFIXES}
    for sentence in itertools.chain(*corpus.values()):
        words = [bare(token) for token in sentence.tokens]
        claimed = {site.start for site in sentence.sites if site.mention.before}
        for site in sentence.sites:
            left, right = words[: site.start][-1:], words[site.end :][:2]
            if site.start not in claimed:
                assert not before & set(left), sentence.tokens
            if not site.mention.after:
                assert not after & set(right[:1]), sentence.tokens
                assert not (right[:1] == [","] and suffixes & set(right[1:])), sentence.tokens


def bare(token: str) -> str:
    return token.lower().rstrip(".") or token


def test_coins_fall_as_often_as_stated(corpus: dict, generate: ModuleType):
    counts = defaultdict(list)
    for sentence in itertools.chain(*corpus.values()):
        for site, gold in zip(sentence.sites, sentence.gold, strict=True):
            if site.mention.before:
                counts[site.mention.before_kind].append(gold.start < site.start)
            if site.mention.after:
                counts[site.mention.after_kind].append(gold.end > site.end)
    assert set(counts) == set(generate.COINS)
    for kind, inside in counts.items():
        probability = generate.COINS[kind]
        deviation = math.sqrt(probability * (1 - probability) / len(inside))
        assert abs(sum(inside) / len(inside) - probability) < 3 * deviation, kind


def test_test_coins_lie_within_one_standard_deviation(coin_records: list, rows: dict, ceiling: ModuleType):
    gold = ceiling.span_keys(rows["test"])
    kinds = {ceiling.key_of(record): record["construction"] for record in coin_records}
    hits = defaultdict(list)
    for key, probability in ceiling.likeliest_spans(coin_records).items():
        hits[kinds[key], probability].append(key in gold)
    for (kind, probability), outcomes in hits.items():
        spread = math.sqrt(probability * (1 - probability) * len(outcomes))
        assert abs(sum(outcomes) - probability * len(outcomes)) <= spread, kind


def test_most_names_have_several_labels(rows: dict, ceiling: ModuleType):
    names = ceiling.label_counts(rows["train"])
    assert sum(count for number, count in names.items() if number > 1) > 0.75 * sum(names.values())
    assert names[4] + names[5] >= 10


def test_the_sentence_around_the_names_decides_their_labels(corpus: dict):
    labels = defaultdict(set)
    for sentence in itertools.chain(*corpus.values()):
        words = [re.sub(r"[\d.,:]*\d", "#", token.lower()) for token in sentence.tokens]
        outer = []
        for site in sentence.sites:
            if not outer or site.start >= outer[-1].end:
                outer.append(site)
        for site in reversed(outer):
            words[site.start - len(site.mention.before) : site.end + len(site.mention.after)] = ["X"]
        labels[tuple(words)].add(tuple(site.mention.label for site in outer))
    assert len(labels) > 1000
    assert [words for words, labellings in labels.items() if len(labellings) > 1] == []


def test_a_dictionary_stays_far_below_the_ceiling(rows: dict, coin_records: list, ceiling: ModuleType):
    gold = ceiling.span_keys(rows["test"])
    predicted = ceiling.dictionary_spans(rows["train"], rows["test"])
    likeliest = ceiling.likeliest_spans(coin_records)
    dictionary_f1 = ceiling.f1_scores(len(predicted & gold), len(predicted), len(gold))[2]
    ceiling_f1 = ceiling.f1_scores(math.fsum(likeliest.values()), len(likeliest), len(gold))[2]
    assert 0.02 < dictionary_f1 < 0.5 * ceiling_f1


def test_dictionary_by_hand(ceiling: ModuleType):
    """Lisk is twice a LOC and once an ORG, so it is LOC wherever it stands; Tarn was never an entity."""
    train = [
        {"id": "a", "tokens": ["Lisk", "Tarn"], "entities": [{"start": 0, "end": 1, "label": "LOC"}]},
        {"id": "b", "tokens": ["lisk", "Tarn"], "entities": [{"start": 0, "end": 1, "label": "LOC"}]},
        {"id": "c", "tokens": ["Lisk", "Tarn"], "entities": [{"start": 0, "end": 1, "label": "ORG"}]},
    ]
    assert ceiling.dictionary_spans(train, [{"id": "d", "tokens": ["in", "LISK", "Tarn"]}]) == {("d", 1, 2, "LOC")}


def test_optimal_set_equals_brute_force(ceiling: ModuleType):
    """Of {.9 .1} {.55 .45} {.4 .35 .25} one span each gives F1 .617; with .45 and .35 it is 2 * 2.65 / 8 = .663."""
    options = [[0.9, 0.1], [0.55, 0.45], [0.4, 0.35, 0.25]]
    records = [
        {"id": "s", "mention": mention, "start": start, "end": 9, "label": f"{mention}", "probability": probability}
        for mention, probabilities in enumerate(options)
        for start, probability in enumerate(probabilities)
    ]
    chosen = ceiling.optimal_spans(records)
    all_probabilities = [record["probability"] for record in records]
    best = max(
        2 * sum(subset) / (len(subset) + 3)
        for size in range(1, len(all_probabilities) + 1)
        for subset in itertools.combinations(all_probabilities, size)
    )
    assert 2 * sum(chosen.values()) / (len(chosen) + 3) == pytest.approx(best)
    assert sorted(chosen.values()) == [0.35, 0.4, 0.45, 0.55, 0.9]
    assert sorted(ceiling.likeliest_spans(records).values()) == [0.4, 0.55, 0.9]


def test_calibration_errors_by_hand(ceiling: ModuleType):
    """Bin 8 holds .75 hit and .75 missed, so its gap is |1 - 1.5| / 3; bin 10 is exact.

    Expected is sqrt(2/pi * .375) / 3.
    """
    predictions = {("s", 0, 1, "PER"): 0.75, ("s", 2, 3, "PER"): 0.75, ("s", 4, 5, "PER"): 1.0}
    realised, expected = ceiling.calibration_errors(predictions, {("s", 0, 1, "PER"), ("s", 4, 5, "PER")})
    assert realised == pytest.approx(0.5 / 3)
    assert expected == pytest.approx(math.sqrt(2 / math.pi * 0.375) / 3)


def test_files_are_small():
    assert all(path.stat().st_size < 1_000_000 for path in [*FOLDER.iterdir(), *PACKAGED.iterdir()] if path.is_file())
