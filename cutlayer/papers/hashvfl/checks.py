"""What HashVFL's tables measure on a trained run beside accuracy and attacks: detection, alarms, reconstruction."""

from copy import deepcopy
from itertools import product

import numpy as np
import torch

from cutlayer.attacks.code_inversion import CodeInversion
from cutlayer.blocks.codebook import hamming, target_codes
from cutlayer.defence import Local, Place
from cutlayer.defences.abnormal_codes import AbnormalCodes
from cutlayer.draws import Draws
from cutlayer.metrics.dependence import image_distance_correlation, noise_control
from cutlayer.metrics.images import kld, per_row_mse, ssim
from cutlayer.plan import embedding_width
from cutlayer.rng import generator, numpy_generator
from cutlayer.run import Run
from cutlayer.transcript import Transcript


def detection(run: Run) -> dict[str, float]:
    """Table VI: one party sends the target code of a class, the other every possible code.

    Mean Hamming distance between the two over the predictions that are still that class (correct)
    and over those that are not (error), averaged over classes that have such predictions.
    """
    classes, bits = len(run.task.classes), 4
    targets = target_codes(classes, bits, run.plan.seed)
    every = torch.tensor(list(product((-1.0, 1.0), repeat=bits)))
    distances: dict[str, list[float]] = {"correct": [], "error": []}
    top = run.session.label_party.top.eval()
    device = next(top.parameters()).device
    for wanted, code in enumerate(targets):
        joint = run.plan.cut.join([code.expand(len(every), -1), every])
        with torch.no_grad():
            right = top(joint.to(device)).argmax(dim=1).cpu() == wanted
        apart = hamming(code, every)
        for kind, chosen in (("correct", right), ("error", ~right)):
            if chosen.any():
                distances[kind].append(float(apart[chosen].mean()))
    return {kind: sum(values) / len(values) if values else float("nan") for kind, values in distances.items()}


def alarms(run: Run) -> dict[str, float]:
    """How often the detector of section V-D flags honest rows, and rows that one party forges, in percent.

    The first party forges 1,000 test rows of other classes than 0: with the code among those it has seen
    that the top most likely turns into class 0, or simply with class 0's target code.
    """
    first = run.task.feature_parties[0]
    labels = run.task.labels[run.task.test]
    rows = run.task.test[labels != 0][:1000]
    seen = Transcript()
    run.session.predict(rows, seen.write)
    sent = {channel.sender: channel.read()[1] for channel in seen.channels.values()}
    bits = sent[first].shape[1]
    target = target_codes(len(run.task.classes), bits, run.plan.seed)[0]
    top = deepcopy(run.session.label_party.top).cpu().eval()
    choices = sent[first].unique(dim=0)
    with torch.no_grad():
        joint = [
            run.plan.cut.join([choice.expand(len(rows), -1) if name == first else sent[name] for name in sent])
            for choice in choices
        ]
        chance = torch.stack([top(inputs).softmax(dim=1)[:, 0] for inputs in joint])
    forged = {
        "false alarms": sent[first],
        "detected, best of the codes seen": choices[chance.argmax(dim=0)],
        "detected, code of class 0": target.expand(len(rows), -1),
    }
    local = Local(Place.EMBEDDING, Draws(0), False, rows)
    shares = {}
    for kind, codes in forged.items():
        flags = AbnormalCodes().inspect({**sent, first: codes}, None, local)
        assert flags is not None
        shares[kind] = 100 * float(flags.double().mean())
    return shares


def reconstruction(run: Run) -> dict[str, float]:
    """Table IV: one picture per class code, compared with up to 100 test images of that class.

    Beside the paper's three figures stand their controls: distance correlation of the same images with
    independent noise and with the pictures of other classes, and the error of the class's mean image.
    """
    name = run.task.feature_parties[0]
    bottom = deepcopy(run.session.parties[name].modules["bottom"]).eval().requires_grad_(False)
    values, labels = run.task.features[name].values, run.task.labels
    assert isinstance(values, torch.Tensor)
    bits = embedding_width(len(run.task.classes), run.plan)
    codes = target_codes(len(run.task.classes), bits, run.plan.seed)
    rng = generator(run.plan.seed, "reconstruction")
    pictures = CodeInversion(restarts=1).pictures(bottom, tuple(values.shape[1:]), codes, rng).numpy()
    noise = numpy_generator(run.plan.seed, "noise control")
    means: dict[str, list[float]] = {}
    for wanted in range(len(codes)):
        rows = run.task.test[labels[run.task.test] == wanted][:100]
        truth = values[rows].numpy()
        mean = values[run.task.train[labels[run.task.train] == wanted]].mean(0, keepdim=True).numpy()
        guess, other = (np.broadcast_to(pictures[i], truth.shape) for i in (wanted, (wanted + 1) % len(codes)))
        figures = {
            "KLD": kld(truth, guess),
            "SSIM": ssim(truth, guess),
            "DCOR": image_distance_correlation(truth, guess),
            "DCOR against noise": noise_control(truth, noise),
            "DCOR, pictures of other classes": image_distance_correlation(truth, other),
            "MSE": per_row_mse(truth, guess),
            "MSE of the class mean": per_row_mse(truth, np.broadcast_to(mean, truth.shape)),
        }
        for figure, numbers in figures.items():
            means.setdefault(figure, []).append(float(np.mean(numbers)))
    return {figure: float(np.mean(numbers)) for figure, numbers in means.items()}
