import pytest
import torch


@pytest.fixture(autouse=True)
def fixed_start():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield
