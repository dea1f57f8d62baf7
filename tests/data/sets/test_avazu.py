import pytest
import torch

from cutlayer.data import load
from cutlayer.data.sets.avazu import parse as parse_avazu
from cutlayer.errors import ConfigError


def test_avazu_ranks_codes_by_frequency_and_balances(put, any_size):
    rows = [f"{int(i % 4 == 0)},{i % 24:02d},{'aab'[i % 3]}" for i in range(40)]
    put("avazu/avazu_random_15000.csv", "click,hour,site_id\n" + "\n".join(rows))
    task = load("avazu")
    assert torch.bincount(task.labels).tolist() == [10, 10]
    assert len(load("avazu", balance=False).labels) == 40
    raw = parse_avazu(b"id,click,site_id\n9,0,b\n8,1,a\n7,0,a\n")
    assert raw.names == ("site_id",) and raw.values.T.tolist() == [[1, 0, 0]]
    with pytest.raises(ConfigError, match="Unknown sample 'all': expected one of random, first-hour"):
        load("avazu", sample="all")
