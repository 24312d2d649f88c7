"""Rows as JSON lines."""

from hf_spanner.data.readers import read_rows
from hf_spanner.data.writers import save_rows

ENTITY = {"start": 0, "end": 2, "label": "LOC", "score": 0.5}
PLAIN = {"id": None, "document": None, "tokens": [" ", "#"], "entities": [{"start": 0, "end": 1, "label": "X"}]}


def test_rows_come_back_with_text_offsets_and_scores(tmp_path):
    row = {"id": "7", "document": "d", "tokens": ["Lake", "Tarn", "."], "entities": [ENTITY]}
    row |= {"text": "Lake\nTarn.", "offsets": [(0, 4), (5, 9), (9, 10)]}
    save_rows([row, PLAIN], tmp_path / "a.jsonl.gz")
    assert list(read_rows(tmp_path / "a.jsonl.gz", details=True)) == [row, PLAIN]
