import inspect
import json

import pytest
import torch

import cutlayer.data
from cutlayer.data import Goal, describe, load, names
from cutlayer.data.assemble import by_rounded_share, first_to_others
from cutlayer.errors import ConfigError, DataError

EMBEDDED = ("digits", "breast-cancer", "wine")


@pytest.mark.parametrize("name", EMBEDDED)
def test_embedded_sets_have_their_counts(name):
    task = load(name)
    about = next(about for about in describe() if about.name == name)
    width = sum(features.values[0].numel() for features in task.features.values())
    assert (len(task.labels), width, len(task.classes)) == (about.rows, about.columns, about.classes)
    assert sorted(torch.cat([task.train, task.test]).tolist()) == list(range(about.rows))
    assert task.labels.dtype == torch.int64 and set(task.labels.tolist()) == set(range(about.classes))
    assert task.label_party == "party1" and task.feature_parties == ("party2",)


@pytest.mark.parametrize("name", EMBEDDED)
def test_a_task_is_made_again_from_its_source(name):
    task = load(name, parties=3, label_party="server", seed=5, limit=50)
    source = json.loads(json.dumps(dict(task.source)))
    again = load(source.pop("dataset"), **source)
    assert task.source == again.source
    assert torch.equal(task.train, again.train) and torch.equal(task.labels, again.labels)
    for party, features in task.features.items():
        assert torch.equal(features.values, again.features[party].values)


def test_digits_are_strips_of_images_between_0_and_1():
    task = load("digits", parties=3)
    assert [tuple(part.values.shape[1:]) for part in task.features.values()] == [
        (1, 8, 3),
        (1, 8, 3),
        (1, 8, 2),
    ]
    whole = torch.cat([part.values for part in task.features.values()], dim=3)
    assert float(whole.min()) == 0 and float(whole.max()) == 1


def test_limit_keeps_class_shares_and_a_test_part_in_proportion():
    task = load("wine", limit=71)
    assert (len(task.train), len(task.test)) == (71, 18)
    assert len(task.labels) == 89
    assert torch.bincount(task.labels[task.train]).tolist() == pytest.approx([23.5, 28.5, 19], abs=0.5)
    assert len(load("wine", limit=10_000).labels) == 178


def test_the_label_party_may_hold_no_columns():
    task = load("wine", parties=1, label_party="server")
    assert task.label_party == "server" and task.feature_parties == ("party1",)
    with pytest.raises(DataError, match="at least one party besides"):
        load("wine", parties=1)


def test_unknown_names_and_options_are_refused():
    with pytest.raises(ConfigError, match=r"Unknown dataset 'diggits'.*Did you mean 'digits'"):
        load("diggits")
    with pytest.raises(ConfigError, match="Unknown option of wine 'partys': expected one of parties, label_party"):
        load("wine", partys=3)
    with pytest.raises(ConfigError, match="Expected limit=0 to be at least 1"):
        load("wine", limit=0)
    with pytest.raises(ConfigError, match="parties"):
        load("wine", parties=14)


def test_every_dataset_is_a_keyword_function_with_the_shared_arguments():
    for name in names():
        signature = inspect.signature(getattr(cutlayer.data, name.replace("-", "_")))
        assert list(signature.parameters)[:4] == ["parties", "label_party", "seed", "limit"]
        assert all(p.kind is p.KEYWORD_ONLY and p.default is not p.empty for p in signature.parameters.values())


@pytest.mark.parametrize("name", [name for name in names() if name not in EMBEDDED])
def test_a_missing_file_is_one_error_that_helps(folder, name):
    with pytest.raises(DataError, match="Set CUTLAYER_DATA to a folder that holds it"):
        load(name)


def test_first_columns_go_to_the_other_parties():
    assert first_to_others(3, 5, 1) == [[0, 1, 2, 3, 4]]
    assert first_to_others(3, 5, 2) == [[3, 4], [0, 1, 2]]
    assert first_to_others(3, 5, 3) == [[3, 4], [0, 1], [2]]


def test_rounded_shares_are_those_of_images():
    assert [len(share) for share in by_rounded_share(25, 2)] == [12, 13]
    assert [column for share in by_rounded_share(95, 3) for column in share] == list(range(95))


def test_goals_follow_the_classes():
    assert [load(name).goal for name in EMBEDDED] == [Goal.MULTICLASS, Goal.BINARY, Goal.MULTICLASS]
