"""Nearest code: where target codes are shared, a party's own codes tell it the labels."""

from typing import ClassVar

from torch import Generator

from cutlayer.attack import Asks, Attack, Form, Guess, Target
from cutlayer.attacks.tools.reading import predicted
from cutlayer.attacks.tools.shared_codes import nearest_code, shared_codes
from cutlayer.defence import Role
from cutlayer.errors import ConfigError
from cutlayer.view import Manifest, View


class NearestCode(Attack):
    """Name each row after the target code that is nearest to the code sent for it.

    Hashing pulls the codes of a class towards a target code that follows from a seed which all
    parties know, so a feature party that compares its own codes with the codebook needs no label at
    all. The distance is Hamming's, (d - <h, o>) / 2, which serves for messages that are not +-1 as
    well; among equally near codes the first class is taken.

    Sees: the codes that it sent itself, in a prediction pass over the training rows.
    Needs: nothing else; target codes that all parties know.
    Specification: hashvfl, section 7.
    Paper: ours, against Qiu et al., HashVFL (arXiv:2212.00325), which shares the target codes.
    """

    target: ClassVar[Target] = Target.LABELS
    by: ClassVar[Role] = Role.FEATURE_PARTY

    @property
    def asks(self) -> Asks:
        """Its own codes of the training rows, as sent."""
        return Asks(frozen_train=True)

    def applies(self, manifest: Manifest) -> str | None:
        """Only where the target codes are known."""
        return super().applies(manifest) or ("needs shared target codes" if shared_codes(manifest) is None else None)

    def run(self, view: View, rng: Generator) -> Guess:
        """Compare the sent codes with the target codes."""
        codes = shared_codes(view.manifest)
        if codes is None:
            raise ConfigError("Expected shared target codes for nearest-code; ask applies() first.")
        rows, sent = predicted(view, view.attacker, view.manifest.train)
        return Guess(rows, nearest_code(sent, codes), Form.CLASSES)
