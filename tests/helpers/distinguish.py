"""Distinguishers: given what a party saw, what a simulator made up, and secrets, say which of them find something."""

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

SIGMAS = 5.5  # beyond chance: once in some ten million looks


def found(bits, real, made_up, secrets=()):
    """Names of the distinguishers that find something.

    `real` and `made_up` are lists of residue matrices of one shape, place by place what was seen together. `secrets`
    are matrices with as many rows: none of what was seen may follow from them linearly.
    """
    names = set()
    if any(_bytes_differ(bits, *pair) for pair in zip(real, made_up, strict=True)):
        names.add("bytes")
    if _told_apart(_features(bits, real), _features(bits, made_up)):
        names.add("told apart")
    if any(_follows(_centred(bits, seen), secret) for seen in real for secret in secrets):
        names.add("linear")
    return names


def _centred(bits, residues):
    half = 1 << (bits - 1)
    return (((np.asarray(residues, np.int64) + half) & (2 * half - 1)) - half) / (2 * half)


def _bytes_differ(bits, real, made_up):
    """Pearson's statistic of two samples, for each byte of a residue."""
    for shift in range(0, bits, 8):
        one, two = (np.bincount(np.ravel(part) >> shift & 255, minlength=256) for part in (real, made_up))
        held = one + two > 0
        statistic = ((one - two)[held] ** 2 / (one + two)[held]).sum()
        if statistic > held.sum() + SIGMAS * np.sqrt(2 * held.sum()):
            return True
    return False


def _features(bits, seen):
    """Of each number of each matrix: itself, sums and differences with the others modulo t, sizes, the lowest byte."""
    flat = [np.ravel(matrix) for matrix in seen]
    pairs = [each for i, one in enumerate(flat) for two in flat[:i] for each in (one + two, one - two)]
    wide = [_centred(bits, number) for number in (*flat, *pairs)]
    low = [(number & 255) / 256 - 0.5 for number in flat]
    return np.stack([*wide, *map(np.abs, wide), *low], axis=1)


def _told_apart(real, made_up):
    """Whether logistic regression or the nearest neighbours do better than a coin, on numbers they were not taught."""
    inputs = np.concatenate([real, made_up])
    truth = np.repeat([0, 1], [len(real), len(made_up)])
    order = np.random.default_rng(0).permutation(len(truth))
    taught, held = order[::2], order[1::2]
    for model in (LogisticRegression(max_iter=1000), KNeighborsClassifier(15)):
        model = make_pipeline(StandardScaler(), model).fit(inputs[taught], truth[taught])
        if model.score(inputs[held], truth[held]) > 0.5 + SIGMAS * 0.5 / len(held) ** 0.5:
            return True
    return False


def _follows(seen, secret):
    """Whether least squares on half of the rows predict the other half better than its mean does."""
    inputs = np.concatenate([secret, np.ones((len(secret), 1))], axis=1)
    half = len(inputs) // 2
    learned = np.linalg.lstsq(inputs[:half], seen[:half])[0]
    rest = ((inputs[half:] @ learned - seen[half:]) ** 2).sum()
    return 1 - rest / ((seen[half:] - seen[half:].mean(axis=0)) ** 2).sum() > 0.1
