import pytest
import torch

from cutlayer.data import imdb
from cutlayer.data.assemble import Call
from cutlayer.data.sets.imdb import parse as parse_reviews
from cutlayer.data.sets.imdb import token_task, tokens
from cutlayer.data.source import read_tar
from cutlayer.errors import ConfigError, DataError
from tests.helpers.archives import tar_xz


@pytest.fixture
def reviews(put):
    files = {
        "aclImdb/test/pos/0_10.txt": "Good.",
        "aclImdb/train/pos/0_9.txt": "Great film!",
        "aclImdb/train/neg/0_3.txt": "Bad",
        "aclImdb/train/unsup/0_0.txt": "unlabelled",
        "aclImdb/train/labeledBow.feat": "9 0:9",
    }
    return put("imdb/aclImdb-labelled.tar.xz", tar_xz(files))


def test_reviews_are_read_with_their_label(reviews):
    train, test = parse_reviews(read_tar(reviews))
    assert train == [(0, "Bad"), (1, "Great film!")] and test == [(1, "Good.")]
    with pytest.raises(DataError, match="25000 training and 25000 test reviews for imdb, got 2 and 1"):
        imdb()


def test_each_party_holds_its_characters():
    reviews = [(n % 2, "one two three four") for n in range(30)]
    call = Call.of({"parties": 2, "label_party": None, "seed": 0, "limit": 10})
    task = token_task(call, reviews, reviews, characters=8, length=3, vocabulary=100)
    assert (len(task.train), len(task.test)) == (10, 10)
    assert torch.equal(task.features["party1"].values[:1], tokens(["one two "], 3, 100))
    assert torch.equal(task.features["party2"].values[:1], tokens(["three fo"], 3, 100))
    assert task.features["party1"].values.dtype == torch.int64


def test_tokens_are_words_and_marks_without_case():
    numbers = tokens(["The film, the FILM", "", "a b c d e f"], 5, 50)
    assert numbers.shape == (3, 5)
    first = numbers[0].tolist()
    assert first[0] == first[3] and first[1] == first[4] and len(set(first)) == 3
    assert numbers[1].tolist() == [0] * 5
    assert int(numbers[0].min()) >= 1 and int(numbers.max()) < 50


def test_sizes_must_be_positive(folder):
    with pytest.raises(ConfigError, match="Expected vocabulary=1 to be at least 2"):
        imdb(vocabulary=1)
