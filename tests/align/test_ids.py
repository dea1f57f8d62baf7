"""Every id has one spelling, and none is ever shown."""

import traceback

import numpy as np
import pytest

from cutlayer.align import Ids, Rule, read_ids
from cutlayer.errors import ConfigError, DataError


def normalised(value, rule=Rule.TEXT, country=""):
    ids = read_ids([value], rule=rule, country=country)
    return ids.values[0].decode() if ids.values else ""


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("  Ada ", "ada"),
        ("ADA\t\n", "ada"),
        ("\ufeffAda\u200b", "ada"),
        ("\u00a0Ada\u3000", "ada"),
        ("Straße", "strasse"),
        ("STRASSE", "strasse"),
        ("Zoe\u0308", "zo\u00eb"),
        ("ＡＤＡ１２", "ada12"),
        ("ﬁne", "fine"),
        ("ΣΊΣΥΦΟΣ", "σίσυφοσ"),
        ("σίσυφος", "σίσυφοσ"),
        ("a b", "a b"),
        ("007", "007"),
        (7, "7"),
        (np.int64(7), "7"),
        (None, ""),
        (float("nan"), ""),
        (" \u200b ", ""),
        ("", ""),
    ],
)
def test_text(written, expected):
    assert normalised(written) == expected


@pytest.mark.parametrize("text", ["ẞ", "İ", "ŉ", "\u0345\u03b1", "ϓ", "ﬃ", "℡", " Å ", "\u1e9b\u0323"])
def test_spelling_twice_changes_nothing(text):
    assert normalised(normalised(text)) == normalised(text)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (" Ada.Lovelace+x@Gmail.COM ", "ada.lovelace+x@gmail.com"),
        ("ada＠example.org", "ada@example.org"),
        ("ada", ""),
        ("@example.org", ""),
        ("ada@", ""),
        ("a@b@c", ""),
        ("Ada <ada@example.org>", ""),
    ],
)
def test_email(written, expected):
    assert normalised(written, Rule.EMAIL) == expected


@pytest.mark.parametrize(
    ("written", "country", "expected"),
    [
        ("+49 30 1234-5", "", "+493012345"),
        ("0049 30 12345", "", "+493012345"),
        ("+49 (0)30 / 12345", "", "+493012345"),
        ("(+49) 30 12345", "", "+493012345"),
        ("030 12345", "49", "+493012345"),
        ("030 12345", "+49", "+493012345"),
        ("06 12345", "39", "+390612345"),
        ("030 12345", "", "03012345"),
        ("212 555 0100", "1", "+12125550100"),
        ("+1 212 555 0100", "49", "+12125550100"),
        ("٠٣٠ ١٢", "49", "+493012"),
        ("none", "49", ""),
        ("+", "", ""),
        ("00", "", ""),
        ("", "49", ""),
    ],
)
def test_phone(written, country, expected):
    assert normalised(written, Rule.PHONE, country) == expected


def test_empty_and_repeated_rows_are_counted():
    ids = read_ids(["b", " B ", "", "a", None, "b"], keep_first=True)
    assert ids.values == (b"b", b"a") and ids.rows.tolist() == [0, 3]
    assert (len(ids), ids.empty, ids.repeated) == (2, 2, 2)


def test_repeats_are_refused_by_count():
    with pytest.raises(DataError, match=r"got 2 of 4 rows whose id stood in an earlier row") as caught:
        read_ids(["hidden", "Hidden", " hidden", "other"])
    assert "hidden" not in "".join(traceback.format_exception_only(caught.value)).lower()


def test_no_id_is_shown():
    ids = read_ids(["hidden"])
    assert repr(ids) == "Ids(empty=0, repeated=0)" == str(ids)
    with pytest.raises(DataError, match=r"whole numbers, got a value of type float\.$"):
        read_ids([1234.5])
    with pytest.raises(DataError, match=r"got a value of type bool\.$"):
        read_ids([True])


def test_text_that_utf8_cannot_hold_does_not_end_in_an_error_that_quotes_it():
    assert len(read_ids(["a\ud800"])) == 1


@pytest.mark.parametrize("country", ["x", "049", "1234", "+"])
def test_a_wrong_country(country):
    if country == "+":
        assert len(read_ids(["1"], rule=Rule.PHONE, country=country)) == 1
        return
    with pytest.raises(ConfigError, match="calling code of one to three digits"):
        read_ids([], rule=Rule.PHONE, country=country)


def test_a_country_is_for_phones():
    with pytest.raises(ConfigError, match="completes phone numbers only"):
        read_ids([], country="49")


def test_an_empty_column():
    ids = read_ids([])
    assert isinstance(ids, Ids) and len(ids) == 0 and ids.rows.dtype == np.int64
