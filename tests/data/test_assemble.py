import pytest

from cutlayer.data import Goal, load
from cutlayer.data.assemble import by_rounded_share, first_to_others
from cutlayer.errors import DataError

EMBEDDED = ("digits", "breast-cancer", "wine")


def test_the_label_party_may_hold_no_columns():
    task = load("wine", parties=1, label_party="server")
    assert task.label_party == "server" and task.feature_parties == ("party1",)
    with pytest.raises(DataError, match="at least one party besides"):
        load("wine", parties=1)


def test_first_columns_go_to_the_other_parties():
    assert first_to_others(3, 5, 1) == [[0, 1, 2, 3, 4]]
    assert first_to_others(3, 5, 2) == [[3, 4], [0, 1, 2]]
    assert first_to_others(3, 5, 3) == [[3, 4], [0, 1], [2]]


def test_rounded_shares_are_those_of_images():
    assert [len(share) for share in by_rounded_share(25, 2)] == [12, 13]
    assert [column for share in by_rounded_share(95, 3) for column in share] == list(range(95))


def test_goals_follow_the_classes():
    assert [load(name).goal for name in EMBEDDED] == [Goal.MULTICLASS, Goal.BINARY, Goal.MULTICLASS]
