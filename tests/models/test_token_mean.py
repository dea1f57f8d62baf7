import pytest
import torch

from cutlayer.errors import ConfigError
from cutlayer.models import TokenMean

IDS = torch.tensor([[5, 9, 3, 0, 0], [7, 2, 0, 0, 0]])


def test_token_mean_averages_without_padding():
    model = TokenMean(3, vocabulary=10, embedding=4)
    table = model.embedding.weight
    means = torch.stack([table[[5, 9, 3]].mean(dim=0), table[[7, 2]].mean(dim=0), torch.zeros(4)])
    ids = torch.cat([IDS, torch.zeros(1, 5, dtype=torch.int64)])
    torch.testing.assert_close(model(ids), model.fc(means))
    with pytest.raises(ConfigError, match="Expected vocabulary=1"):
        TokenMean(3, vocabulary=1)
