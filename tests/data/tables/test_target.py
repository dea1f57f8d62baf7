import pytest
import torch

from cutlayer.data.task import Goal
from tests.helpers.customers import ROWS, load


def test_text_labels_are_sorted_and_keep_their_names(save):
    task = load(save(default=[("low", "high", "mid")[row % 3] for row in range(ROWS)]))
    assert task.goal is Goal.MULTICLASS and task.classes == ("high", "low", "mid")
    assert task.labels[:3].tolist() == [1, 0, 2]


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        ([0.0, 1.0], ("0", "1")),
        ([True, False], ("false", "true")),
        ([10, 9], ("9", "10")),
        ([0.5, 2], ("0.5", "2")),
    ],
)
def test_class_names_read_as_in_the_table(save, values, classes):
    assert load(save(default=[values[row % 2] for row in range(ROWS)])).classes == classes


def test_many_decimals_are_a_regression_and_a_goal_decides(save):
    path = save(default=[row + 0.5 for row in range(ROWS)])
    task = load(path)
    assert task.goal is Goal.REGRESSION and task.classes == () and task.labels.dtype == torch.float32
    assert task.labels[:2].tolist() == [0.5, 1.5]
    assert load(save(), goal=Goal.REGRESSION).goal is Goal.REGRESSION
    assert load(save(), goal="multiclass").goal is Goal.MULTICLASS
