"""IMDb large movie reviews: positive or negative, from the beginning of the review.

Words become numbers by hashing, so no word list is needed and no party learns another's words.
HashVFL feeds a pretrained BERT instead; its token numbers would need that model's word list.
"""

import re
import zlib
from collections.abc import Iterable

import torch
from torch import Tensor

from cutlayer._validate import at_least
from cutlayer.data.about import About
from cutlayer.data.assemble import Call, assemble, given_parts, keep_rows
from cutlayer.data.source import MB, File, find, read_tar
from cutlayer.data.split import party_names
from cutlayer.data.task import Features, Task
from cutlayer.errors import DataError

IMDB = About("imdb", 50_000, 0, 2, "film reviews, good or bad", "HashVFL", "none stated; cite Maas et al. 2011")
_FILES = (
    File("imdb/aclImdb-labelled.tar"),
    File(
        "imdb/aclImdb_v1.tar",
        "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
        served="c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe",
        size=256 * MB,
    ),
)
_WORD = re.compile(r"\w+|[^\w\s]")


def imdb(
    *,
    parties: int = 2,
    label_party: str | None = None,
    seed: int = 0,
    limit: int | None = None,
    characters: int = 160,
    length: int = 80,
    vocabulary: int = 8192,
) -> Task:
    """Token numbers (n, length); the official 25,000/25,000 split.

    Party i holds characters [characters·(i-1), characters·i) of each review, as in HashVFL's code. In
    each piece every word or mark, in lower case, is a number from 1 to vocabulary-1, by hashing;
    pieces are cut or filled with 0 to `length`.
    """
    call = Call.of(locals())
    for name, value, least in (
        ("characters", characters, 1),
        ("length", length, 1),
        ("vocabulary", vocabulary, 2),
    ):
        at_least(name, value, least)
    train, test = parse(read_tar(find(*_FILES)))
    if (len(train), len(test)) != (25_000, 25_000):
        raise DataError(
            f"Expected 25000 training and 25000 test reviews for imdb, got {len(train)} and {len(test)}; "
            "get the complete file."
        )
    return token_task(call, train, test, characters=characters, length=length, vocabulary=vocabulary)


def token_task(
    call: Call,
    train: list[tuple[int, str]],
    test: list[tuple[int, str]],
    *,
    characters: int,
    length: int,
    vocabulary: int,
) -> Task:
    """Make the task from reviews."""
    labels = torch.tensor([label for label, _ in train + test])
    texts = [text for _, text in train + test]
    kept = keep_rows(labels, *given_parts(len(train), len(test)), call)
    features = {}
    for number, party in enumerate(party_names(call.parties)):
        start = number * characters
        pieces = (texts[row][start : start + characters] for row in kept.rows.tolist())
        features[party] = Features(tokens(pieces, length, vocabulary))
    note = "words hashed to numbers in place of BERT's tokens; HTML breaks are left in"
    return assemble(IMDB, call, features, labels[kept.rows], ("negative", "positive"), kept, (note,))


def parse(files: Iterable[tuple[str, bytes]]) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """Sort archive members into training and test reviews, each a label (1 for positive) and a text."""
    parts: dict[str, list[tuple[str, int, str]]] = {"train": [], "test": []}
    for name, content in files:
        steps = name.split("/")
        if len(steps) >= 4 and steps[-3] in parts and steps[-2] in ("neg", "pos") and name.endswith(".txt"):
            parts[steps[-3]].append((name, int(steps[-2] == "pos"), content.decode("utf-8", "replace")))
    train, test = ([(label, text) for _, label, text in sorted(part)] for part in parts.values())
    return train, test


def tokens(texts: Iterable[str], length: int, vocabulary: int) -> Tensor:
    """Number the words and marks of each text by hashing (CRC-32); 0 fills up short texts."""
    known: dict[str, int] = {}
    rows = []
    for text in texts:
        words = _WORD.findall(text.lower())[:length]
        for word in words:
            if word not in known:
                known[word] = 1 + zlib.crc32(word.encode()) % (vocabulary - 1)
        rows.append([known[word] for word in words] + [0] * (length - len(words)))
    return torch.tensor(rows, dtype=torch.int64).view(-1, length)
