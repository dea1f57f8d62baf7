import numpy as np
import pytest
import torch

from cutlayer.attacks.tools.binary.precision import precision_of

NUMBERS = np.random.default_rng(0).normal(0, 30, (200, 6))


def test_the_kind_of_rounding_is_read_off_the_numbers():
    assert str(precision_of(NUMBERS)) == "float64"
    assert str(precision_of(NUMBERS.astype(np.float32))) == "float32"
    assert str(precision_of(NUMBERS.astype(np.float32).astype(float))) == "float32"
    for name in ("float16", "bfloat16"):
        assert str(precision_of(torch.from_numpy(NUMBERS).to(getattr(torch, name)).double().numpy())) == name


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_decimals_and_digits_are_told_in_binary_too(count, kind):
    decimals = precision_of(NUMBERS.round(count).astype(kind))
    assert decimals.decimals == count and str(decimals) == f"{count} decimal{'s' * (count != 1)}"
    assert str(precision_of(NUMBERS.round().astype(kind))) == "whole numbers"
    digits = np.vectorize(lambda number: float(f"{number:.{count}e}"))(NUMBERS).astype(kind)
    assert precision_of(digits).digits == count + 1


def test_steps_are_the_distance_of_neighbours():
    numbers = np.array([[1.0, 1.5, 1000.0, 0.0, -3.0]])
    singles = precision_of(NUMBERS.astype(np.float32))
    assert singles.steps(numbers)[0, :3] == pytest.approx(np.spacing(numbers[0, :3].astype(np.float32)))
    assert singles.steps(numbers)[0, 3] == 0
    assert precision_of(NUMBERS.round(2)).steps(numbers)[0, [0, 1, 3, 4]] == pytest.approx([0.01, 0.01, 0, 0.01])
    three = precision_of(np.vectorize(lambda number: float(f"{number:.3g}"))(NUMBERS))
    assert three.steps(numbers)[0] == pytest.approx([0.01, 0.01, 10, 0, 0.01])


def test_one_number_of_full_length_is_enough_to_see_it():
    mixed = NUMBERS.round(1)
    mixed[150, 3] = np.pi
    assert str(precision_of(mixed)) == "float64"
