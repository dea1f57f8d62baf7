"""A feature party's view of training steps that can be worked out by hand."""

import torch
from torch import nn

from cutlayer.cuts.concat import Concat
from cutlayer.message import Kind
from cutlayer.recipe import Optimiser, Recipe
from cutlayer.rng import Stream
from cutlayer.transcript import Keep, Policy, Transcript
from cutlayer.view import Manifest, Own, Start, View, view_of
from tests.helpers.toy import FEATURE, ROSTER, record


def two_rows(batches: int = 1) -> View:
    """One weight and one bias, two rows (2 and 3), gradients 0.5 and -1, SGD at 0.1 without momentum."""
    layer = nn.Linear(1, 1)
    with torch.no_grad():
        layer.weight.fill_(4.0)
        layer.bias.fill_(1.0)
    features, rows = torch.tensor([[2.0], [3.0]]), torch.tensor([0, 1])
    transcript = Transcript(Keep(Policy.ALL))
    for step in range(batches):
        record(transcript, Kind.GRADIENT, FEATURE, rows, torch.tensor([[0.5], [-1.0]]), step)
    recipe = Recipe(batch_size=2, optimiser=Optimiser.SGD, momentum=0.0, lr=0.1)
    manifest = Manifest("toy", ROSTER, 2, rows, rows[:0], recipe, Concat())
    own = Own(features, None, start=lambda: Start(layer, features, Stream(0, "own")))
    return view_of(transcript, frozenset({FEATURE}), manifest, {FEATURE: own})
