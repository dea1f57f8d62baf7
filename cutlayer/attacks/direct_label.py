"""Direct label: where logits are summed, the gradient of a row is lowest at its label."""

from typing import ClassVar

from torch import Generator

from cutlayer.attack import Attack, Form, Guess, Target
from cutlayer.defence import Role
from cutlayer.errors import Inapplicable
from cutlayer.message import Kind
from cutlayer.transcript import LAST
from cutlayer.view import View


class DirectLabel(Attack):
    """Name the class at which a row's gradient is lowest.

    Where embeddings are summed to the logits (`--cut sum --top none`, as wide as there are classes), a row's
    gradient is p - e_y over the batch size: its one negative entry stands at the label. The least entry is the same
    and still answers where a softmax in float32 has saturated and the entry at the label is 0. Behind a trainable
    top of the same width the least entry is a guess: the top need not keep classes where they stand.

    Sees: the gradients that the label party sent in the last kept epoch.
    Needs: nothing else; embeddings with one number for each class.
    Cost: milliseconds (results/vflrecon).
    Specification: baselines, section 1.
    Paper: Fu et al., Label Inference Attacks Against Vertical Federated Learning (USENIX Security 2022).
    """

    target: ClassVar[Target] = Target.LABELS
    by: ClassVar[Role] = Role.FEATURE_PARTY

    def run(self, view: View, rng: Generator) -> Guess:
        """Find the least entry."""
        rows, gradients, _ = view.channel(Kind.GRADIENT, peer=view.attacker).read(epoch=LAST)
        if gradients.flatten(1).shape[1] != view.manifest.classes:
            raise Inapplicable("needs one output per class")
        return Guess(rows, gradients.flatten(1).argmin(dim=1), Form.CLASSES)
