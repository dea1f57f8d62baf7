"""Reconstruction of labels (VFLRecon): learn on shadow data what a party's own records say about labels."""

from typing import ClassVar

from torch import Generator

from cutlayer.attack import Form, Guess, Target
from cutlayer.attacks.tools.practice import Practised
from cutlayer.view import View


class Reconstruction(Practised):
    """Learn on shadow data what a party's own records of a training step say about the labels.

    The attacker trains the same federation `runs` times on `shadow` rows and keeps a record of every row at every
    step: the gradient it received, its embedding before and after the step, its columns and, with `parameters=all`,
    its weights before and after, or their difference alone. A network (1000-600-200, Adam, at most `rounds` over all
    records at `rate`, a tenth of the rows held out) learns labels from records, and then reads the run's first epoch.
    `epochs` of a rehearsal are as many as take the steps of that epoch, unless given.

    Which direction of a gradient means which class is settled by the first weights of the other models, and the
    paper does not say who knows those: with `start=shared` all models of a rehearsal start as in the run, with
    `start=own` only the attacker's does. `adaptive=false` leaves the run's defences out of the rehearsal. The paper's
    literal setting is runs=1,epochs=5,parameters=all: one run is not enough, and weights tell runs apart, not labels.

    Sees: the gradients of the first epoch, and its own past.
    Needs: `shadow` complete rows that are not trained on; with start=shared everyone's first weights.
    Cost: 20 to 45 s on a GPU, 2 minutes on a CPU, with 20 rehearsals on 1,000 shadow rows (results/vflrecon).
    Specification: vflrecon, section 2.
    Paper: Zhu et al., Vulnerabilities of Data Protection in Vertical Federated Learning Training and
    Countermeasures, Algorithm 1.
    """

    target: ClassVar[Target] = Target.LABELS
    hidden: ClassVar[tuple[int, ...]] = (1000, 600, 200)
    settings: ClassVar[tuple[str, ...]] = ("runs=1,epochs=10,rounds=4,start=shared", "runs=1,epochs=10,rounds=4")

    def run(self, view: View, rng: Generator) -> Guess:
        """Practise on the shadow's labels, then read the run's records."""
        rows, classes = self.practise(view, rng, lambda shadow: shadow.labels, view.manifest.classes)
        return Guess(rows, classes, Form.CLASSES)
