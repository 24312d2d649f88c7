"""Frames of texts get the entities of the pipeline, also after a journey to another process, and in Spark."""

import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pandas import DataFrame

from hf_spanner import SpanNERPipeline
from hf_spanner.data.answers import answered_records
from hf_spanner.integrations.frames import ENTITIES_SCHEMA, AnsweredFrames

TEXTS = ["Ana met Bo in Oslo.", "", "Mira Stone works for the Bank of Oslo"]


@pytest.fixture
def tagger(random_tagger: Callable[..., SpanNERPipeline], tmp_path: Path) -> SpanNERPipeline:
    tagger = random_tagger("boundary_smoothing")
    tagger.save_pretrained(tmp_path / "model")
    return tagger


def test_frames_keep_their_columns_and_get_entities(tagger: SpanNERPipeline, tmp_path: Path) -> None:
    function = pickle.loads(pickle.dumps(AnsweredFrames(str(tmp_path / "model"), "value", overlap="any")))
    frames = [DataFrame({"id": [1, 2], "value": TEXTS[:2]}, index=[7, 9]), DataFrame({"id": [3], "value": TEXTS[2:]})]
    answered = list(function(iter(frames)))
    assert [list(frame.columns) for frame in answered] == [["id", "value", "entities"]] * 2
    found = [entity for frame in answered for entities in frame["entities"] for entity in entities]
    expected = [entity for text in TEXTS for entity in tagger(text, overlap="any")]
    assert [(e["start"], e["end"], e["label"]) for e in found] == [
        (e["start"], e["end"], e["entity_group"]) for e in expected
    ]
    assert [e["score"] for e in found] == pytest.approx([e["score"] for e in expected], abs=1e-5)


def test_a_missing_column_and_a_value_that_is_no_text_are_named(tagger: SpanNERPipeline, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"column value, row 1 \(from 0\) of a frame: text is None"):
        list(AnsweredFrames(str(tmp_path / "model"), "value")([DataFrame({"value": ["Oslo", None]}, dtype=object)]))
    with pytest.raises(ValueError, match=r"column must be one of \['id', 'text'\], got 'value'"):
        list(AnsweredFrames(str(tmp_path / "model"), "value")([DataFrame({"id": [1], "text": ["Oslo"]})]))


@pytest.mark.slow
def test_spark_maps_texts_to_entities(tagger: SpanNERPipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = pytest.importorskip("pyspark.sql")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    session = sql.SparkSession.builder.master("local[2]").getOrCreate()
    try:
        frame = session.read.text(str(tmp_path / "texts"))
        function = AnsweredFrames(str(tmp_path / "model"), "value")
        rows = {row["value"]: row for row in frame.mapInPandas(function, f"value string, {ENTITIES_SCHEMA}").collect()}
    finally:
        session.stop()
    for record in answered_records(tagger, [{"text": text} for text in TEXTS]):
        found = [entity.asDict() for entity in rows[record["text"]]["entities"]]
        assert [entity | {"score": 0} for entity in found] == [e | {"score": 0} for e in record["entities"]]
