"""Some batches through the two ends of an encrypted layer, with all that each side decrypts or opens."""

import numpy as np
import torch

from cutlayer.crypto import Bfv, Ring
from cutlayer.cuts.parts.layer_ends import NoiseEnd, Terms, WeightsEnd
from tests.helpers.toy import rng

BITS, COLUMNS, WIDTH = 40, 4, 6
LAYER = Ring(BITS, 0)
TERMS = Terms(LAYER, COLUMNS, WIDTH, 0.1)
PLACES = TERMS.places
STEPS = 20


class Watching(NoiseEnd):
    """Keeps all that it decrypts."""

    def _open(self, data, rows, of, for_rows=None):
        self.seen = super()._open(data, rows, of, for_rows)
        return self.seen


class Unmasked(WeightsEnd):
    """A label party that forgot its masks."""

    def _masked(self, plain, operand):
        self._mask = np.zeros((plain.shape[0], operand.shape[1]), np.int64)
        return self.public.masked_product(plain, operand, self._mask).to_bytes()


def layer_steps(label_class=WeightsEnd):
    """Some batches: what each side got, in the ring, beside what the functionality works on."""
    scheme, out = (
        Bfv(LAYER),
        {name: [] for name in ("product", "half", "step", "half step", "gradient", "true step", "alpha", "delta")},
    )
    feature = Watching(scheme, TERMS, 21)
    label = label_class(scheme.read_key(feature.secret.public.to_bytes()), TERMS, 22)
    feature.begin(label.begin(feature.factor()))
    weights = LAYER.add(label.weights, feature.noise)
    for step in range(STEPS):
        alpha, delta = (torch.randn(32, size, generator=rng(100 * size + step)) for size in (COLUMNS, WIDTH))
        product = feature.complete(label.forward(feature.forward(alpha), 32), alpha, step)
        out["half"].append(feature.seen.T)
        ideal = LAYER.matmul(LAYER.encode(alpha, PLACES.embedding), weights)
        out["product"].append(LAYER.subtract(LAYER.subtract(product, label._mask.T), ideal))
        share, _ = feature.disturb(label.weights_gradient(feature.operand(alpha), delta / 32), 32, step)
        out["half step"].append(feature.seen.T)
        true = alpha.double().T @ delta.double() / 32
        out["true step"].append(true.numpy())
        out["step"].append(LAYER.subtract(share, label._mask.T))
        feature.gradient(label.gradient(feature.encrypted_noise(32), delta / 32, step), 32)
        ideal = LAYER.matmul(LAYER.encode(delta / 32, PLACES.delta + 5), np.ascontiguousarray(weights.T))
        out["gradient"].append(LAYER.subtract(feature.seen, ideal))
        out["alpha"].append(alpha.double().numpy())
        out["delta"].append(delta.double().numpy())
    return {name: np.concatenate(parts) for name, parts in out.items()}
