import torch

from cutlayer.data import load


def test_digits_are_strips_of_images_between_0_and_1():
    task = load("digits", parties=3)
    assert [tuple(part.values.shape[1:]) for part in task.features.values()] == [
        (1, 8, 3),
        (1, 8, 3),
        (1, 8, 2),
    ]
    whole = torch.cat([part.values for part in task.features.values()], dim=3)
    assert float(whole.min()) == 0 and float(whole.max()) == 1
