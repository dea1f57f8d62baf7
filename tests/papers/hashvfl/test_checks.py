"""HashVFL's checks on a top whose answers follow from the codes."""

import pytest
import torch

import cutlayer as cl
from cutlayer.blocks.codebook import target_codes
from cutlayer.papers.hashvfl.checks import detection


def test_detection_by_hand():
    """A top that answers with the class whose code is nearest to the second party's code."""

    class Nearest(torch.nn.Module):
        def __init__(self, codes):
            super().__init__()
            self.codes = torch.nn.Parameter(codes)

        def forward(self, joint):
            return joint[:, 4:] @ self.codes.T

    run = cl.train(
        cl.data.wine(label_party="server"),
        defences=[cl.defences.Hash(bits=4)],
        recipe=cl.Recipe(epochs=1, batch_size=32),
    )
    codes = target_codes(3, 4, 0)
    run.session.label_party.top = Nearest(codes)
    every = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0])] * 4)
    answers = (every @ codes.T).argmax(1)
    correct, error = [], []
    for wanted, code in enumerate(codes):
        apart = (4 - every @ code) / 2
        correct.append(float(apart[answers == wanted].mean()))
        error.append(float(apart[answers != wanted].mean()))
    values = detection(run)
    assert values["correct"] == pytest.approx(sum(correct) / 3) and values["error"] == pytest.approx(sum(error) / 3)
