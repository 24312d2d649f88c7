import gzip

import pytest

from hf_spanner.data.lines import decoded, has_bare_return, text_lines


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"a\nb", ["a", "b"]),
        (b"\xef\xbb\xbfa\r\n\r\nb\r\n", ["a", "", "b"]),
        ("a\u2028b\u0085c\x0bd\x1ee\n".encode(), ["a\u2028b\u0085c\x0bd\x1ee"]),
        (b"a\rb\n", ["a\rb"]),
        (b"a\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
    ],
)
def test_only_newlines_end_a_line(tmp_path, data, lines):
    plain, packed = tmp_path / "a.txt", tmp_path / "a.txt.gz"
    plain.write_bytes(data)
    packed.write_bytes(gzip.compress(data))
    assert list(text_lines(plain)) == list(enumerate(lines, start=1))
    assert list(text_lines(packed)) == list(enumerate(lines, start=1))


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"a O\rb O\r\rc O\r", ["a O", "b O", "", "c O"]),
        (b"\xef\xbb\xbfa\rb", ["a", "b"]),
        (b"a\rb\n", ["a\rb"]),
        (b"a\n\rb", ["a", "\rb"]),
        (b"a\r\nb\rc", ["a", "b\rc"]),
        (b"a", ["a"]),
    ],
)
def test_bare_returns_end_the_lines_of_a_file_without_newlines_if_asked(tmp_path, data, lines):
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    assert list(text_lines(path, old_line_ends=True)) == list(enumerate(lines, start=1))


@pytest.mark.parametrize(
    ("line", "is_bare"), [("a", False), ("", False), ("a\r", False), ("\r\r", False), ("a\rb", True), ("\ra", True)]
)
def test_a_bare_return_has_text_after_it(line, is_bare):
    assert has_bare_return(line) == is_bare


def test_other_encodings_are_refused_with_file_line_and_byte(tmp_path):
    path = tmp_path / "latin.txt"
    path.write_bytes(b"ok\nMalm\xf6\n")
    with pytest.raises(ValueError, match=r"latin\.txt, line 2: byte 5 is b'\\xf6'; allowed: UTF-8"):
        list(text_lines(path))


@pytest.mark.parametrize("cut", [slice(0, 30), slice(5, None)])
def test_damaged_gzip_data_names_the_file(tmp_path, cut):
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(bytes(range(256)) * 20)[cut])
    with pytest.raises(ValueError, match=r"cut\.gz, .*damaged gzip data"):
        list(text_lines(path))


def test_decoded_replaces_nothing():
    assert decoded("é\r\n".encode(), "f") == "é\r\n"
    with pytest.raises(ValueError, match="^f, line 1: byte 1 is"):
        decoded("é".encode("utf-16"), "f")
    with pytest.raises(ValueError, match="^f, line 9: byte 3 is"):
        decoded(b"a\n\nab\xff", "f", first_line=7)
