"""Records of an attacker's own past: their numbers by hand, and their order."""

import pytest
import torch

import cutlayer as cl
from cutlayer.attacks.tools.records import Records, write_records
from tests.helpers.small_task import bottom, make_task, top
from tests.helpers.two_rows import two_rows


def test_a_record_by_hand():
    """b = 4x + 1; dW = 0.5*2 - 1*3 = -2, db = -0.5; so W' = 4.2, bias' = 1.05 and b' = 9.45 and 13.65."""
    records = write_records([two_rows()], "all")
    expected = torch.tensor(
        [
            # 2 x gradient, b, b', W, bias, W', bias', x
            [1.0, 9.0, 9.45, 4.0, 1.0, 4.2, 1.05, 2.0],
            [-2.0, 13.0, 13.65, 4.0, 1.0, 4.2, 1.05, 3.0],
        ]
    )
    torch.testing.assert_close(records.take(torch.arange(2)), expected)
    assert records.rows.tolist() == [0, 1] and records.steps.tolist() == [0, 0]


@pytest.mark.parametrize(("parameters", "numbers"), [("difference", [0.2, 0.05]), ("none", [])])
def test_ablations(parameters, numbers):
    records = write_records([two_rows()], parameters).take(torch.tensor([1]))
    torch.testing.assert_close(records, torch.tensor([[-2.0, 13.0, 13.65, *numbers, 3.0]]))


def test_both_kinds_of_numbers_stand_in_their_order():
    each, shared = torch.arange(10.0).view(2, 5), torch.tensor([[50.0], [60.0]])
    records = Records(torch.arange(2), torch.tensor([0, 1]), each, shared, columns=2)
    assert records.width == 6
    assert records.take(torch.tensor([1])).tolist() == [[5.0, 6.0, 7.0, 60.0, 8.0, 9.0]]


def test_the_first_epoch_alone():
    recipe = cl.Recipe(epochs=3, batch_size=32)
    run = cl.train(make_task(3, "p0"), bottoms=bottom, top=top, width=6, recipe=recipe, keep="all")
    first, whole = (write_records([run.view("p1")], "none", first_only=only) for only in (True, False))
    assert sorted(first.rows.tolist()) == run.task.train.tolist()
    assert len(whole.rows) == 3 * len(first.rows)
    torch.testing.assert_close(whole.each[: len(first.rows)], first.each)
