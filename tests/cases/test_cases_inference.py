"""Cases I: neighbours in the batch, forms of input, ties in decoding, long-running use; every method and tokenizer."""

import gc
import itertools
import json
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import GeneratorType
from typing import Any

import psutil
import pytest
import torch
from datasets import Dataset

from hf_spanner import SpanNERPipeline
from hf_spanner.core.overlap import resolve_overlaps
from hf_spanner.core.spans import Span

Case = dict[str, Any]
Entities = list[dict[str, Any]]
ANA, OSLO = "Ana met Bo", "Oslo"
UNLIKE = [
    "The University of New York opened a laboratory in the north of the city last year . " * 3,
    "\u200b \u200d",
    "a aa aaa b bb c " * 20,
]


@pytest.fixture(scope="module")
def tagger(random_tagger: Callable[..., SpanNERPipeline], method: str, kind: str) -> SpanNERPipeline:
    """A pipeline on an untrained model that finds entities."""
    return random_tagger(method, kind)


@pytest.fixture(scope="module")
def perfect(perfect_pipeline: Callable[..., Any], method: str, kind: str) -> Any:
    """A pipeline that finds the gold it is given, in texts that are read one by one."""
    return perfect_pipeline(kind, method)


def difference(answers: list[Entities], expected: list[Entities]) -> float:
    """The largest difference of a score between entities that are otherwise equal and in the same order."""
    without_scores = [[[{**entity, "score": 0} for entity in text] for text in texts] for texts in (answers, expected)]
    assert without_scores[0] == without_scores[1]
    scores = [[entity["score"] for text in texts for entity in text] for texts in (answers, expected)]
    return max((abs(left - right) for left, right in zip(*scores, strict=True)), default=0.0)


@pytest.mark.parametrize("case", ["I-01"], indirect=True)
def test_answers_do_not_depend_on_neighbours(
    case: Case, tagger: SpanNERPipeline, record_property: Callable[[str, Any], None]
) -> None:
    """The case's texts come as it says, then unlike ones in another order, and all their candidates are compared.

    The largest difference of a score is recorded.
    """
    texts = case["input"]["texts"]
    alone = [tagger(text) for text in texts]
    assert sum(map(bool, alone)) > 1
    largest = 0.0
    for size in case["input"]["batch_sizes"]:
        largest = max(largest, difference(tagger(texts, batch_size=size), alone))
        largest = max(largest, difference(tagger(texts[::-1], batch_size=size), alone[::-1]))
    mixed = random.Random(3).sample([*texts, *UNLIKE], len(texts) + len(UNLIKE))
    single_answers = [tagger(text, overlap="any") for text in mixed]
    for size in (3, len(mixed)):
        largest = max(largest, difference(tagger(mixed, batch_size=size, overlap="any"), single_answers))
    record_property("largest difference", largest)
    assert largest <= case["expected"]["score_tolerance"]


@pytest.mark.parametrize("case", ["I-02"], indirect=True)
def test_one_text_and_lists_of_texts(case: Case, perfect: Any) -> None:
    """Items 0 to 3 are run with the case's own spans, and all values are plain."""
    for text, spans in case["input"]["oracle_spans"].items():
        entities = [dict(zip(("start", "end", "label"), span, strict=True)) for span in spans]
        answer = perfect.run_text(text, entities)
        assert [[entity["start"], entity["end"], entity["entity_group"]] for entity in answer] == spans
        assert json.loads(json.dumps(answer)) == answer
        names = {"label": "entity_group", "text": "word"}
        assert {names.get(key, key) for key in case["expected"]["entity_keys_at_least"]} <= set(answer[0])
        assert perfect.run([text], [(0, 1, "PER")]) == [perfect.run(text, [(0, 1, "PER")])]
    assert perfect.pipeline([]) == []


@pytest.mark.parametrize("case", ["I-02"], indirect=True)
def test_tuples_generators_and_columns(case: Case, tagger: SpanNERPipeline) -> None:
    """These are items 2, 4, 5 and 6.

    A generator is read lazily, so even one without an end gives its first answers.
    """
    expected = [tagger(ANA), tagger(OSLO)]
    assert expected[0]
    tolerance = 1e-5
    for pair in ([ANA, OSLO], (ANA, OSLO)):
        assert difference(tagger(pair), expected) <= tolerance
    column_answers = tagger(Dataset.from_dict({"text": [ANA, OSLO]})["text"], batch_size=2)
    assert difference(list(column_answers), expected) <= tolerance
    num_read = 0

    def texts() -> Iterator[str]:
        nonlocal num_read
        for text in itertools.cycle((ANA, OSLO)):
            num_read += 1
            yield text

    answers = tagger(texts(), batch_size=1)
    assert isinstance(answers, GeneratorType)
    assert num_read == 0
    assert difference([next(answers), next(answers)], expected) <= tolerance
    assert num_read <= 32
    assert list(tagger(text for text in ())) == []


@pytest.mark.parametrize("case", ["I-02"], indirect=True)
def test_words_need_the_switch(case: Case, perfect: Any) -> None:
    """These are items 7 and 8."""
    words = [ANA.split(), OSLO.split()]
    first, second = (
        perfect.run([text_words], spans, pretokenized=True)[0]
        for text_words, spans in zip(words, ([(0, 1, "PER"), (2, 3, "PER")], [(0, 1, "LOC")]), strict=True)
    )
    keys = ("start", "end", "word_start", "word_end", "word")
    assert [[entity[key] for key in keys] for entity in first] == [[0, 3, 0, 1, "Ana"], [8, 10, 2, 3, "Bo"]]
    assert [[entity[key] for key in keys] for entity in second] == [[0, 4, 0, 1, "Oslo"]]
    assert len(perfect.run(words, [], pretokenized=True)) == 2
    with pytest.raises(TypeError, match="position 0 is a list; for lists of words give pretokenized=True"):
        perfect.pipeline(words)


@pytest.mark.parametrize("case", ["I-02"], indirect=True)
def test_what_is_no_text_is_named_by_its_position(case: Case, tagger: SpanNERPipeline) -> None:
    """This is item 9."""
    for item, position in ((None, 0), (3, 0), (b"Ana", 0), ({"text": "Ana"}, 0), ([ANA, None], 1), ([b"Ana"], 0)):
        with pytest.raises(TypeError, match=f"position {position} must be a text, got"):
            tagger(item)


@pytest.mark.parametrize("case", ["I-03"], indirect=True)
def test_threshold_overlap_and_ties(case: Case) -> None:
    """The threshold acts first: what takes part are the candidates that pass it."""
    names = sorted({label for _, _, label, _ in case["input"]["candidates"]}, reverse=True)
    id2label = dict(enumerate(names))
    candidates = [
        Span(start, end, names.index(label), score)
        for start, end, label, score in case["input"]["candidates"]
        if score >= case["input"]["threshold"]
    ]
    modes = {"flat": ("flat", False), "nested": ("nested", False), "nested multi-label": ("nested", True)}
    orders = list(itertools.permutations(candidates))
    for order in random.Random(0).sample(orders, 200):
        for mode in case["input"]["modes"]:
            policy, multi_label = modes[mode]
            resolved = resolve_overlaps(order, policy=policy, id2label=id2label, multi_label=multi_label)
            named = [[span.start, span.end, id2label[span.label], span.score] for span in resolved]
            assert named == case["expected"][mode], mode


@pytest.mark.parametrize("share", [0.1, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", ["I-04"], indirect=True)
def test_threads_share_a_pipeline(case: Case, tagger: SpanNERPipeline, share: float) -> None:
    """Texts of several lengths and settings run at once; each answer is as if alone, also when asked again."""
    num_threads, num_calls = case["input"]["threads"], round(share * case["input"]["calls_per_thread"])
    settings = ({"threshold": 0.0}, {"threshold": 0.4}, {"overlap": "any"})
    calls = list(itertools.product((ANA, OSLO, "a b c " * 4, "", [ANA, OSLO]), settings))
    expected = [tagger(texts, **options) for texts, options in calls]
    assert [tagger(texts, **options) for texts, options in calls] == expected
    assert sum(map(bool, expected)) > len(settings)
    places = list(itertools.islice(itertools.cycle(range(len(calls))), num_threads * num_calls))
    with ThreadPoolExecutor(num_threads) as pool:
        answers = list(pool.map(lambda place: tagger(calls[place][0], **calls[place][1]), places))
    assert answers == [expected[place] for place in places]


@pytest.mark.slow
@pytest.mark.parametrize("case", ["I-04"], indirect=True)
def test_memory_of_a_warm_pipeline_does_not_grow(case: Case, tagger: SpanNERPipeline) -> None:
    lengths = random.Random(0).choices(range(12), k=2 * case["input"]["warm_calls"])
    process, sizes = psutil.Process(), []
    for half in (lengths[::2], lengths[1::2]):
        for length in half:
            tagger("Ana " * length)
        gc.collect()
        sizes.append(process.memory_info().rss)
    assert sizes[1] - sizes[0] < case["expected"]["rss_growth_mib_max"] * 2**20


@pytest.mark.parametrize("case", ["I-04"], indirect=True)
def test_half_precision_works_on_a_cpu(
    case: Case, random_tagger: Callable[..., SpanNERPipeline], method: str, kind: str
) -> None:
    tagger = random_tagger(method, kind)
    for dtype in case["input"]["dtypes_on_cpu"]:
        tagger.model.to({"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[dtype])
        answers = tagger([ANA, "Mira Stone works"])
        assert any(answers)
        assert all(0 <= entity["score"] <= 1 for entities in answers for entity in entities)


@pytest.mark.parametrize("case", ["I-04"], indirect=True)
def test_inference_is_without_dropout_and_gradients_on_the_device_of_the_model(
    case: Case, random_tagger: Callable[..., SpanNERPipeline], method: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model handed over in training mode is put into evaluation mode."""
    made = random_tagger(method, kind)
    tagger = SpanNERPipeline(model=made.model.train(), tokenizer=made.tokenizer)
    seen = []
    encode = tagger.model.encode

    def noted(*inputs: torch.Tensor, **asked: Any) -> Any:
        seen.append((tagger.model.training, torch.is_grad_enabled(), {tensor.device for tensor in inputs}))
        return encode(*inputs, **asked)

    monkeypatch.setattr(tagger.model, "encode", noted)
    assert tagger(ANA) == tagger(ANA) != []
    assert seen == [(False, False, {tagger.model.device})] * 2


@pytest.mark.parametrize("case", ["I-04"], indirect=True)
@pytest.mark.parametrize("device", ["cuda", "cuda:0", 0])
def test_an_accelerator_that_is_not_there_is_an_error(
    device: str | int, case: Case, tagger: SpanNERPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no silent fallback, which the library has for a number; the message is torch's or ours."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises((AssertionError, RuntimeError, ValueError), match="(?i)CUDA|accelerator|NVIDIA driver"):
        SpanNERPipeline(model=tagger.model, tokenizer=tagger.tokenizer, device=device)
