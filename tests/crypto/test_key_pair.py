"""One agreement for masks and for alignment: both sides derive the same secret, and nobody else does."""

import copy

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from cutlayer.crypto.key_pair import KeyPair, derive_key
from cutlayer.errors import ProtocolError


def key_pair(name, first):
    """A key pair whose private key is known."""
    pair = KeyPair(name)
    pair._private = X25519PrivateKey.from_private_bytes(bytes(range(first, first + 32)))
    pair.public = pair._private.public_key().public_bytes_raw()
    return pair


@pytest.mark.parametrize(
    ("context", "secret"),
    [
        ((b"cutlayer zero-sum", b"run 1", b"40"), "04468a2e181da258a88f0dee22055efe6510ac4075aa24b17182f49c226f1472"),
        ((b"cutlayer align", b"sixteen byte salt"), "4f9a0796e57b573413c4add138f0656335b061b8284a87016c09ec1a931f5f18"),
    ],
)
def test_both_sides_derive_the_known_secret_of_a_context(context, secret):
    shop, port = key_pair("shop", 0), key_pair("port", 32)
    publics = {"shop": shop.public, "port": port.public}
    assert shop.agree({"port": publics["port"]}, *context)["port"].hex() == secret
    assert port.agree({"shop": publics["shop"]}, *context)["shop"].hex() == secret


def test_a_secret_is_bound_to_its_context_and_to_both_names():
    public = key_pair("b", 32).public
    secrets = {
        key_pair(name, 0).agree({peer: public}, *context)[peer]
        for name, peer, context in [
            ("a", "b", (b"x", b"y")),
            ("a", "b", (b"xy",)),
            ("a", "b", (b"x", b"z")),
            ("a", "c", (b"x", b"y")),
            ("d", "b", (b"x", b"y")),
        ]
    }
    assert len(secrets) == 5


def test_fields_of_a_context_cannot_run_into_each_other():
    assert derive_key(b"secret", b"ab", b"c") != derive_key(b"secret", b"a", b"bc")


def test_wrong_public_keys_are_refused_and_the_private_key_is_used_once():
    pair, peer = key_pair("a", 0), key_pair("b", 32)
    for public, text in (
        (pair.public, "a different public key from every party"),
        (bytes(32), "a proper public key from b, got one that gives no secret"),
        (bytes(31), "a public key of 32 bytes from b, got 31"),
    ):
        with pytest.raises(ProtocolError, match=text):
            pair.agree({"b": public})
    pair.agree({"b": peer.public})
    with pytest.raises(ProtocolError, match="one meeting per agreement"):
        pair.agree({"b": peer.public})


def test_a_key_pair_is_never_copied_and_shows_nothing():
    pair = KeyPair("a")
    assert repr(pair) == "KeyPair(a)"
    with pytest.raises(TypeError, match="never copied"):
        copy.copy(pair)
