"""The checks of binary reconstruction: what they find in a run under Masquerade, and the messages that they time."""

import pytest

import cutlayer as cl
from cutlayer.attacks import recover_binary
from cutlayer.models import named
from cutlayer.papers.binary.checks import conditions, fabricated, synthetic
from cutlayer.settings import read_defences
from cutlayer.training import train_plan


@pytest.fixture(scope="module")
def linear_run():
    task = cl.data.breast_cancer()
    bottom, top = named.bottom("linear"), named.top("relu-mlp:hidden=30-10")
    plan = cl.Plan(bottoms=bottom, top=top, width=40, cut=cl.Sum(), defences=read_defences(["masquerade"]))
    return train_plan(task, plan)


def test_masquerade_is_checked_by_its_fabricated_bit_and_the_weights_by_their_rank(linear_run):
    values = fabricated(linear_run)
    assert values == {"solutions": 1.0, "the bit": 1.0}
    assert 1e-4 < conditions(linear_run)["weights"] <= 1


def test_the_synthetic_messages_hold_three_binary_columns():
    recovery = recover_binary(synthetic(12, rows=2_000))
    assert len(recovery.columns) == 3 and recovery.certified
