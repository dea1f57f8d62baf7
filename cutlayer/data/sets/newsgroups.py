"""20 Newsgroups, by date: which of twenty groups a message was posted to, as tf-idf of its words."""

from collections.abc import Iterable
from typing import Any

import torch

from cutlayer.blocks.sparse import SparseRows
from cutlayer.data.about import About
from cutlayer.data.assemble import Call, assemble, given_parts, keep_rows
from cutlayer.data.source import MB, File, find, read_tar
from cutlayer.data.split import at_random, party_names
from cutlayer.data.task import Features, Task
from cutlayer.errors import DataError
from cutlayer.rng import numpy_generator

NEWSGROUPS = About("newsgroups", 18_846, 173_762, 20, "messages, tf-idf of their words", "SFA", "none stated")
_FILE = File(
    "20newsgroups/20news-bydate.tar",
    "https://ndownloader.figshare.com/files/5975967",
    served="8f1b2514ca22a5ade8fbb9cfa5727df95fa587f4c87b786e15c759fa66d95610",
    size=128 * MB,
)
_NOTE = "tf-idf fitted on training and test text together, which gives the paper's 173,762 columns (a leak)"


def newsgroups(*, parties: int = 2, label_party: str | None = None, seed: int = 0, limit: int | None = None) -> Task:
    """Sparse tf-idf rows, columns dealt out at random; the official 11,314/7,532 split.

    Headers, footers and quotes stay in the text, as in the paper.
    """
    call = Call.of(locals())
    train, test = parse(read_tar(find(_FILE)))
    if (len(train), len(test)) != (11_314, 7532):
        raise DataError(
            "Expected 11314 training and 7532 test documents for newsgroups, "
            f"got {len(train)} and {len(test)}; get the complete file."
        )
    return tfidf_task(call, train, test)


def parse(files: Iterable[tuple[str, bytes]]) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Sort archive members into training and test documents, each a group's name and a text."""
    parts: dict[str, list[tuple[str, str]]] = {"train": [], "test": []}
    for name, content in sorted(files):
        folder, *rest = name.removeprefix("./").split("/")
        part = folder.removeprefix("20news-bydate-")
        if part in parts and len(rest) == 2:
            parts[part].append((rest[0], content.decode("latin-1")))
    return parts["train"], parts["test"]


def tfidf_task(call: Call, train: list[tuple[str, str]], test: list[tuple[str, str]]) -> Task:
    """Make the task from documents."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    documents = train + test
    classes = sorted({group for group, _ in documents})
    labels = torch.tensor([classes.index(group) for group, _ in documents])
    kept = keep_rows(labels, *given_parts(len(train), len(test)), call)
    matrix: Any = TfidfVectorizer().fit_transform(text for _, text in documents)
    by_column = matrix[kept.rows.numpy()].tocsc()
    rng = numpy_generator(call.seed, "data", "newsgroups", "columns")
    shares = at_random(matrix.shape[1], call.parties, rng)
    features = {
        party: Features(SparseRows.from_scipy(by_column[:, share]))
        for party, share in zip(party_names(call.parties), shares, strict=True)
    }
    return assemble(NEWSGROUPS, call, features, labels[kept.rows], classes, kept, (_NOTE,))
