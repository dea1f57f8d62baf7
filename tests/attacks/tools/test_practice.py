"""A network that learns to read an attacker's records."""

import torch

from cutlayer.attacks.tools.practice import Reader
from cutlayer.attacks.tools.records import Records
from cutlayer.rng import Stream


def test_reader_learns_what_records_say():
    """Labels are the sign of the first number; shared numbers and columns are noise."""
    with Stream(0, "reader").scope():
        each, rows = torch.randn(400, 5), torch.arange(400)
        truth = (each[:, 0] > 0).long()
        records = Records(rows, rows // 20, each, torch.randn(20, 3), columns=2)
        reader = Reader((64,), records, classes=2).learn(truth, rounds=50, rate=1e-3)
    assert (reader.read(records) == truth).double().mean() > 0.95
    whole = records.take(torch.tensor([7]))[0]
    torch.testing.assert_close(whole, torch.cat([each[7, :3], records.shared[0], each[7, 3:]]))
