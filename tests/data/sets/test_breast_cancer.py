import torch

from cutlayer.data import load


def test_columns_are_standardised_on_training_rows():
    task = load("breast-cancer", parties=3)
    values = torch.cat([features.values for features in task.features.values()], dim=1)[task.train].double()
    assert values.shape[1] == 30 and [len(f.columns) for f in task.features.values()] == [10, 10, 10]
    assert values.mean(dim=0).abs().max() < 1e-5 and (values.std(dim=0, correction=0) - 1).abs().max() < 1e-5
