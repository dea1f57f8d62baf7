"""Reconstruction of features (VFLRecon): learn on shadow data what a party's records say about others' columns."""

from typing import ClassVar

from torch import Generator

from cutlayer.attack import Form, Guess, Target
from cutlayer.attacks.tools.practice import Practised
from cutlayer.view import View


class FeatureReconstruction(Practised):
    """Learn on shadow data what a party's own records of a training step say about another party's rows.

    As `reconstruction`, but for columns: 800-500-100, squared error, a linear end. What own columns alone say
    about the victim's is the baseline, and hard to beat. Settings (`runs`, `epochs`, `rounds`, `rate`,
    `parameters`, `adaptive`) are those of `reconstruction`.

    Sees: the gradients of the first epoch, and its own past.
    Needs: `shadow` complete rows that are not trained on; with start=shared everyone's first weights.
    Cost: half a minute on a GPU, 1 minute on a CPU, with 20 rehearsals on 1,000 shadow rows (results/vflrecon).
    Specification: vflrecon, section 2.
    Paper: Zhu et al., Vulnerabilities of Data Protection in Vertical Federated Learning Training and
    Countermeasures, Algorithm 1.
    """

    target: ClassVar[Target] = Target.FEATURES
    hidden: ClassVar[tuple[int, ...]] = (800, 500, 100)
    settings: ClassVar[tuple[str, ...]] = ("runs=1,epochs=10,rounds=4,start=shared",)

    def run(self, view: View, rng: Generator) -> Guess:
        """Practise on the shadow's columns of the victim, then read the run's records."""
        rows, values = self.practise(view, rng, lambda shadow: shadow.features[view.victim].float())
        return Guess(rows, values.view(len(rows), *view.hints.shapes[view.victim]), Form.VALUES)
