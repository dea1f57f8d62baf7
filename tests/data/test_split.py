import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import cutlayer as cl
from cutlayer.data import split
from cutlayer.errors import ConfigError
from cutlayer.rng import generator, numpy_generator

sizes = st.integers(1, 40).flatmap(lambda width: st.tuples(st.just(width), st.integers(1, width)))
seeds = st.integers(0, 10_000)


def holds_every_column_once(blocks, width):
    return sorted(column for block in blocks for column in block) == list(range(width))


def table(seed, rows=60, width=6):
    return np.random.default_rng(seed).normal(size=(rows, width))


def test_parties_are_numbered_from_one():
    assert split.party_names(3) == ("party1", "party2", "party3")


@given(sizes)
def test_evenly_keeps_order_and_sizes_differ_by_one(size):
    width, parties = size
    blocks = split.evenly(width, parties)
    assert [column for block in blocks for column in block] == list(range(width))
    lengths = [len(block) for block in blocks]
    assert len(blocks) == parties and max(lengths) - min(lengths) <= 1
    assert lengths == sorted(lengths, reverse=True)


@given(sizes, st.data())
def test_ratios_are_followed_to_within_what_whole_columns_allow(size, data):
    width, parties = size
    weights = data.draw(st.lists(st.integers(1, 20), min_size=parties, max_size=parties))
    ratios = [weight / sum(weights) for weight in weights]
    blocks = split.by_ratio(width, ratios)
    assert [column for block in blocks for column in block] == list(range(width))
    assert all(blocks)
    if all(ratio * width >= 1 for ratio in ratios):
        assert all(abs(len(block) - ratio * width) < 1 + 1e-6 for block, ratio in zip(blocks, ratios, strict=True))


def test_ratios_by_hand():
    assert split.by_ratio(10, [0.3, 0.3, 0.4]) == [[0, 1, 2], [3, 4, 5], [6, 7, 8, 9]]
    assert [len(block) for block in split.by_ratio(5, [0.01, 0.01, 0.98])] == [1, 1, 3]


@given(sizes, seeds)
def test_random_deals_equal_numbers_and_repeats_by_seed(size, seed):
    width, parties = size
    blocks = split.at_random(width, parties, numpy_generator(seed))
    assert holds_every_column_once(blocks, width)
    assert [len(block) for block in blocks] == [len(block) for block in split.evenly(width, parties)]
    assert all(block == sorted(block) for block in blocks)
    assert blocks == split.at_random(width, parties, numpy_generator(seed))


def test_random_depends_on_the_seed():
    assert split.at_random(30, 2, numpy_generator(0)) != split.at_random(30, 2, numpy_generator(1))


@given(st.lists(st.floats(0, 1), min_size=4, max_size=30), st.lists(st.floats(0.01, 1), min_size=1, max_size=4))
def test_shares_leave_no_party_without_a_column(weights, shares):
    blocks = split.follow_shares(np.array(weights), np.array(shares) / sum(shares))
    assert holds_every_column_once(blocks, len(weights)) and all(blocks)


@given(seeds)
def test_totals_miss_their_shares_by_no_more_than_the_heaviest_columns(seed):
    rng = np.random.default_rng(seed)
    weights, shares = rng.dirichlet(np.ones(50)), rng.dirichlet(np.full(3, 5.0))
    blocks = split.follow_shares(weights, shares)
    totals = np.array([weights[block].sum() for block in blocks])
    assert np.abs(totals - shares).max() <= 2 * weights.max()


def test_importance_finds_the_column_that_tells_the_label():
    features = table(0, rows=300)
    for labels in ((features[:, 4] > 0).astype(np.int64), features[:, 4] * 2.0):
        weights = split.importance(features, labels, numpy_generator(0))
        assert weights.argmax() == 4 and weights.sum() == pytest.approx(1)


def test_importance_is_even_when_nothing_varies():
    weights = split.importance(np.zeros((20, 4)), np.arange(20) % 2, numpy_generator(0))
    assert weights.tolist() == pytest.approx([0.25] * 4)


def test_by_importance_is_repeatable_and_takes_one_or_many_alphas():
    features = table(1)
    labels = (features[:, 0] > 0).astype(np.int64)
    single = split.by_importance(features, labels, 1.0, numpy_generator(3), parties=3)
    many = split.by_importance(features, labels, [1.0, 1.0, 1.0], numpy_generator(3))
    assert single == many and len(single) == 3
    assert holds_every_column_once(single, 6)


def test_a_large_alpha_for_one_party_gives_it_most_of_the_importance():
    features = table(2, rows=200, width=12)
    labels = (features.sum(axis=1) > 0).astype(np.int64)
    first, second = split.by_importance(features, labels, [50.0, 2.0], numpy_generator(0))
    assert len(first) > 2 * len(second)


def test_spearman_by_hand():
    features = np.array([[1.0, 10, 4, 7], [2, 100, 3, 7], [3, 1000, 2, 7], [4, 10_000, 1, 7]])
    related = split.absolute_spearman(features)
    assert related[0].tolist() == pytest.approx([0, 1, 1, 0])


@pytest.fixture(scope="module")
def twins():
    base = np.random.default_rng(5).normal(size=(400, 4))
    return np.concatenate([base, base + 0.01], axis=1)[:, [0, 4, 1, 5, 2, 6, 3, 7]]


def test_beta_zero_keeps_twins_together_and_one_parts_them(twins):
    together = split.by_correlation(twins, 2, 0.0, numpy_generator(0))
    apart = split.by_correlation(twins, 2, 1.0, numpy_generator(0))
    assert all((0 in block) == (1 in block) and (6 in block) == (7 in block) for block in together)
    assert all((0 in block) != (1 in block) and (6 in block) != (7 in block) for block in apart)


def test_correlation_across_parties_grows_with_beta(twins):
    related = split.absolute_spearman(twins)
    correlations = []
    for beta in (0.0, 0.5, 1.0):
        blocks = split.by_correlation(twins, 2, beta, numpy_generator(1))
        owner = np.zeros(8, dtype=int)
        owner[blocks[1]] = 1
        correlations.append(split.between_parties(related, owner))
    assert correlations[0] < correlations[1] < correlations[2]
    assert correlations[1] == pytest.approx((correlations[0] + correlations[2]) / 2, abs=0.06)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 6), st.floats(0, 1), seeds)
def test_by_correlation_is_even_and_repeatable(parties, beta, seed):
    features = table(seed, width=7)
    blocks = split.by_correlation(features, parties, beta, numpy_generator(seed))
    assert holds_every_column_once(blocks, 7)
    assert sorted(map(len, blocks)) == sorted(map(len, split.evenly(7, parties)))
    assert blocks == split.by_correlation(features, parties, beta, numpy_generator(seed))


@given(sizes)
def test_strips_put_the_image_back_together(size):
    width, parties = size
    images = torch.arange(2 * 3 * width, dtype=torch.float32).view(2, 1, 3, width)
    strips = split.by_image_columns(images, parties)
    assert tuple(strips) == split.party_names(parties)
    assert torch.equal(torch.cat(list(strips.values()), dim=3), images)
    assert all(strip.is_contiguous() and strip.shape[3] > 0 for strip in strips.values())


def test_strip_widths_by_hand():
    images = torch.zeros(1, 3, 28, 28)
    assert [strip.shape[3] for strip in split.by_image_columns(images, 2).values()] == [14, 14]
    assert [strip.shape[3] for strip in split.by_image_columns(images, 3).values()] == [9, 9, 10]
    wider = torch.zeros(1, 3, 32, 32)
    assert [strip.shape[3] for strip in split.by_image_columns(wider, 3).values()] == [11, 11, 10]


labels_of_few_classes = st.lists(st.integers(0, 3), min_size=2, max_size=60)


@given(labels_of_few_classes, st.floats(0, 0.95), seeds, st.booleans())
def test_rows_fall_into_exactly_one_part(labels, test, seed, stratify):
    labels = torch.tensor(labels)
    train, held = split.split_rows(labels, test, generator(seed), stratify)
    assert train.dtype == held.dtype == torch.int64
    assert torch.cat([train, held]).sort().values.tolist() == list(range(len(labels)))
    assert train.tolist() == sorted(train.tolist()) and held.tolist() == sorted(held.tolist())
    if stratify:
        assert set(labels[train].tolist()) == set(labels.tolist())
    again = split.split_rows(labels, test, generator(seed), stratify)
    assert torch.equal(train, again[0]) and torch.equal(held, again[1])


def test_stratified_parts_keep_the_share_of_each_class():
    labels = torch.tensor([0] * 80 + [7] * 20)
    _, held = split.split_rows(labels, 0.25, generator(0), True)
    assert labels[held].bincount(minlength=8).tolist() == [20, 0, 0, 0, 0, 0, 0, 5]


def test_small_classes_still_fill_the_test_part():
    labels = torch.arange(10).repeat(2)
    train, held = split.split_rows(labels, 0.2, generator(0), True)
    assert len(held) == 4 and len(train) == 16


def test_rows_depend_on_the_seed():
    labels = torch.zeros(50, dtype=torch.int64)
    first, second = (split.split_rows(labels, 0.5, generator(seed), False)[1] for seed in (0, 1))
    assert not torch.equal(first, second)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: split.party_names(0), "parties=0"),
        (lambda: split.evenly(2, 3), "3 parties and 2 columns"),
        (lambda: split.evenly(3, -1), "parties=-1"),
        (lambda: split.by_ratio(4, [0.5, 0.6]), "sum to 1"),
        (lambda: split.by_ratio(4, [1.5, -0.5]), "above 0"),
        (lambda: split.by_ratio(4, []), "sum to 1"),
        (lambda: split.by_ratio(4, [float("nan"), 1.0]), "above 0"),
        (lambda: split.by_ratio(1, [0.5, 0.5]), "2 parties and 1 columns"),
        (lambda: split.at_random(1, 2, numpy_generator(0)), "2 parties and 1 columns"),
        (lambda: split.by_importance(table(0), np.zeros(60), 1.0, numpy_generator(0)), "pass parties="),
        (lambda: split.by_importance(table(0), np.zeros(60), [1.0, 0], numpy_generator(0)), "alpha=0"),
        (
            lambda: split.by_importance(table(0), np.zeros(60), [1.0], numpy_generator(0), parties=2),
            "2 of them",
        ),
        (lambda: split.by_importance(table(0), np.zeros(9), [1.0], numpy_generator(0)), "9 labels"),
        (lambda: split.by_correlation(table(0), 2, 1.5, numpy_generator(0)), "beta=1.5"),
        (lambda: split.by_correlation(table(0), 7, 0.5, numpy_generator(0)), "7 parties and 6 columns"),
        (lambda: split.by_image_columns(torch.zeros(2, 8, 8), 2), "(n, c, h, w)"),
        (lambda: split.by_image_columns(torch.zeros(1, 1, 2, 2), 3), "3 parties and 2 columns"),
        (lambda: split.split_rows(torch.zeros(4).long(), 1.0, generator(0), True), "test=1.0"),
        (lambda: split.split_rows(torch.zeros(4), 0.5, generator(0), True), "stratify=False"),
    ],
)
def test_bad_input_is_refused_in_words(call, words):
    with pytest.raises(ConfigError) as error:
        call()
    assert words in str(error.value)


def test_columns_are_dealt_out_again_by_share():
    task = cl.data.digits(label_party="server")
    images = torch.cat([f.values for f in task.features.values()], dim=-1)
    again = split.recut(task, (0.25, 0.75))
    assert again.features["party1"].values.shape[-1] == 2
    assert torch.equal(torch.cat([f.values for f in again.features.values()], dim=-1), images)
    table = split.recut(cl.data.wine(label_party="server"), (0.1, 0.9))
    assert [len(f.columns) for f in table.features.values()] == [f.values.shape[1] for f in table.features.values()]
    with pytest.raises(ConfigError, match="a share for each of 2 parties"):
        split.recut(task, (1.0,))
