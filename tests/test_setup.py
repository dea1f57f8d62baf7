"""A setup as one word, as two columns of a row and as objects."""

import subprocess
import sys

import pytest

from cutlayer.cuts import SecureSum
from cutlayer.defences import GaussianNoise, MaxNorm
from cutlayer.setup import Setup, read_setup, setup_of, setup_of_objects

WORDS = [
    ("none", "none", ""),
    ("hash:bits=8", "hash", "bits=8"),
    ("hash:bits=8+max-norm", "hash+max-norm", "bits=8+"),
    ("hash:bits=8+label-dp:epsilon=2", "hash+label-dp", "bits=8+epsilon=2"),
    ("secure-sum+column-noise:flip=0.1", "secure-sum+column-noise", "+flip=0.1"),
    ("secure-sum+self-taught", "secure-sum+self-taught", ""),
    ("secure-sum+self-taught+ppdl", "secure-sum+self-taught+ppdl", ""),
    ("gaussian-noise:std=1e+05", "gaussian-noise", "std=1e+05"),
    ("gaussian-noise:std=1e+05+max-norm", "gaussian-noise+max-norm", "std=1e+05+"),
]


@pytest.mark.parametrize(("word", "defence", "strength"), WORDS)
def test_a_word_becomes_two_columns_and_a_row_gives_it_back(word, defence, strength):
    setup = read_setup(word)
    assert (setup.names, setup.strength) == (defence, strength)
    assert setup_of({"defence": defence, "strength": strength}) == setup and setup.spelling == word


@pytest.mark.parametrize(
    ("defence", "strength", "spelling"),
    [
        ("hash+max-norm", "bits=8", "hash+max-norm (bits=8)"),
        ("noise: strong+er", "std=0.5", "noise: strong+er (std=0.5)"),
        ("noise: strong+er", "", "noise: strong+er"),
        ("both", "bits=8+", "both:bits=8+"),
    ],
)
def test_a_label_is_not_read_as_names(defence, strength, spelling):
    setup = setup_of({"defence": defence, "strength": strength})
    assert setup == Setup(((defence, strength),)) and setup.spelling == spelling
    assert (setup.names, setup.strength) == (defence, strength)


def test_objects_are_spelled_by_their_settings():
    things = [SecureSum(), GaussianNoise(std=1e17), MaxNorm()]
    setup = setup_of_objects(things)
    assert setup.spelling == "secure-sum+gaussian-noise:std=1e+17+max-norm" and read_setup(setup.spelling) == setup
    assert setup_of_objects(things, label="all").parts == (("all", "+std=1e+17+"),)


def test_only_nothing_is_open():
    assert setup_of_objects([]).is_open and read_setup("none").is_open and read_setup("none+none").is_open
    assert not any(read_setup(word).is_open for word in ("hash", "none+hash", "none:std=1"))


def test_strengths_are_ordered_as_numbers():
    words = ["hash:bits=16", "hash:bits=4+max-norm:scale=2", "hash:bits=4"]
    assert sorted(words, key=lambda word: read_setup(word).order) == words[::-1]


def test_a_setup_is_read_without_torch():
    code = "import sys; from cutlayer.setup import read_setup; read_setup('hash'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
