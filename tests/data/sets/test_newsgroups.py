import pytest
import torch

from cutlayer.data import Goal, load
from cutlayer.data.assemble import Call
from cutlayer.data.sets.newsgroups import parse, tfidf_task
from cutlayer.data.source import read_tar
from cutlayer.errors import DataError
from tests.helpers.archives import tar_xz


@pytest.fixture
def messages(put):
    files = {
        "20news-bydate-test/sci.space/3": "moon rocket caf\xe9",
        "20news-bydate-train/sci.space/1": "rocket engine rocket",
        "20news-bydate-train/alt.atheism/2": "belief reason",
        "20news-bydate-train/README": "not a message",
    }
    return put("20newsgroups/20news-bydate.tar.xz", tar_xz(files))


def test_messages_are_sorted_into_training_and_test(messages):
    train, test = parse(read_tar(messages))
    assert train == [("alt.atheism", "belief reason"), ("sci.space", "rocket engine rocket")]
    assert test == [("sci.space", "moon rocket caf\xe9")]


def test_tfidf_columns_are_dealt_out_and_sparse(messages):
    call = Call.of({"parties": 2, "label_party": None, "seed": 0, "limit": None})
    task = tfidf_task(call, *parse(read_tar(messages)))
    first, second = (part.values for part in task.features.values())
    assert first.shape == (3, 3) and second.shape == (3, 3)
    both = torch.cat([first.to_dense(), second.to_dense()], dim=1)
    assert torch.allclose(both.pow(2).sum(dim=1), torch.ones(3))
    assert (both > 0).sum(dim=1).tolist() == [2, 2, 3]
    assert task.labels.tolist() == [0, 1, 1] and task.test.tolist() == [2]
    assert task.goal is Goal.BINARY and "leak" in task.notes[0]


def test_too_few_messages_are_refused(messages):
    with pytest.raises(DataError, match="11314 training and 7532 test documents for newsgroups, got 2 and 1"):
        load("newsgroups")
