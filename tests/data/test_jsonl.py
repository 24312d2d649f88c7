import pytest

from hf_spanner.data.jsonl import json_records


def written(tmp_path, data):
    path = tmp_path / "a.jsonl"
    path.write_bytes(data)
    return path


def test_records_come_with_file_and_line(tmp_path, reading):
    path = written(tmp_path, b'\xef\xbb\xbf{"a": 1}\r\n\r\n{"a": "\xe2\x80\xa8"}')
    assert list(json_records(path, reading())) == [(f"{path}, line 1", {"a": 1}), (f"{path}, line 3", {"a": "\u2028"})]


@pytest.mark.parametrize(
    "line", [b"{", b"[1]", b"3", b'{"a": "\\ud800"}', b"[" * 100_000, b'{"a": ' + b"9" * 5000 + b"}"]
)
def test_a_line_that_is_no_record_is_refused_or_dropped(tmp_path, reading, line):
    path = written(tmp_path, b'{"a": 1}\n' + line + b"\n{}")
    with pytest.raises(ValueError, match=r"a\.jsonl, line 2: line is .*one JSON object a line"):
        list(json_records(path, reading()))
    lenient = reading(on_error="drop")
    assert [record for _, record in json_records(path, lenient)] == [{"a": 1}, {}]
    assert lenient.report.counts == {"dropped, JSON": 1}


@pytest.mark.parametrize("line", [b'{"b": [1], "a": 1, "b": []}', b'{"a": [{"b": 1, "b": 1}]}'])
def test_a_key_given_twice_is_refused_or_dropped(tmp_path, reading, line):
    path = written(tmp_path, b'{"a": 1}\n' + line)
    with pytest.raises(ValueError, match=r"a\.jsonl, line 2: .*key 'b' stands twice"):
        list(json_records(path, reading()))
    lenient = reading(on_error="drop")
    assert [record for _, record in json_records(path, lenient)] == [{"a": 1}]
    assert (lenient.report.counts, lenient.report.num_dropped_rows) == ({"dropped, JSON": 1}, 1)


def test_escaped_pairs_are_one_character(tmp_path, reading):
    path = written(tmp_path, b'{"a": "\\ud83c\\udf89"}')
    assert [record["a"] for _, record in json_records(path, reading())] == ["\U0001f389"]
