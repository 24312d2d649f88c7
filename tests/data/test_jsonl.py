import pytest

from hf_spanner.data import jsonl
from hf_spanner.data.lines import text_lines


def json_records(path, reading):
    return jsonl.json_records(text_lines(path), str(path), reading)


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


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b'[{"a": 1}, {"a": [2]}]', [1, 1]),
        (b'\n[\n  {"a": 1},\n\n  {\n "a": [2]\n }\n]\n', [3, 5]),
        (b'\xef\xbb\xbf[{"a": 1}\r\n, {"a": [2]}]\r\n', [1, 2]),
        (b'[{"a": 1},\n{"a": [2]}]', [1, 2]),
    ],
)
def test_the_items_of_an_array_are_records_with_their_lines(tmp_path, reading, data, lines):
    path = written(tmp_path, data)
    item = ", item 1 of it (from 0)" if lines[0] == lines[1] else ""
    records = [(f"{path}, line {lines[0]}", {"a": 1}), (f"{path}, line {lines[1]}{item}", {"a": [2]})]
    assert list(json_records(path, reading())) == records


@pytest.mark.parametrize("data", [b"[]", b" [\n]\n"])
def test_an_empty_array_has_no_records(tmp_path, reading, data):
    assert list(json_records(written(tmp_path, data), reading())) == []


@pytest.mark.parametrize("item", [b"3", b"[1]", b'{"a": 1, "a": 2}', b'{"a": "\\ud800"}'])
def test_an_item_that_is_no_record_is_refused_or_dropped(tmp_path, reading, item):
    path = written(tmp_path, b'[{"a": 1},\n' + item + b",\n{}]")
    with pytest.raises(ValueError, match=r"a\.jsonl, line 2: line is .*one array of objects"):
        list(json_records(path, reading()))
    lenient = reading(on_error="drop")
    assert [record for _, record in json_records(path, lenient)] == [{"a": 1}, {}]
    assert lenient.report.counts == {"dropped, JSON": 1}


@pytest.mark.parametrize(
    "data",
    [
        b'[{"a": 1},\n{"a": 2} {}]',
        b'[{"a": 1},\n{"a": }]',
        b'[{"a": 1},\n]',
        b'[{"a": 1},\n{"a": []',
        b'[{"a": 1}\n] ]',
        b'[{"a": 1},\n' + b"[" * 100_000 + b"]",
        b'[{"a": 1},\n{"a": ' + b"9" * 5000 + b"}]",
    ],
)
def test_a_broken_array_is_an_error_with_its_line_also_when_dropping(tmp_path, reading, data):
    for options in ({}, {"on_error": "drop"}):
        with pytest.raises(ValueError, match=r"a\.jsonl, line 2: array is "):
            list(json_records(written(tmp_path, data), reading(**options)))


def test_lines_of_arrays_are_no_array(tmp_path, reading):
    lenient = reading(on_error="drop")
    assert list(json_records(written(tmp_path, b"[1]\n[2]\n"), lenient)) == []
    assert lenient.report.counts == {"dropped, JSON": 2}
    lenient = reading(on_error="drop")
    assert [record for _, record in json_records(written(tmp_path, b'[{"a": 1}\n{}\n'), lenient)] == [{}]
