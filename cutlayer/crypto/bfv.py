"""BFV on Microsoft SEAL: the fast backend. One multiplication serves a whole chunk of rows (packing.py).

Circuit privacy: from a bare product the key owner reads the evaluator's rows off by linear algebra, both
from `c1 = sum_i a_i p_i`, as it knows every a_i, and from the noise `sum_i e_i p_i`. So each result gets
a fresh public-key encryption of zero (c1 becomes an RLWE sample), a flood on c0 (flood.py), a uniform
mask modulo t on every coefficient, and two modulus switches, which also make it three times smaller.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlayer.crypto import layout
from cutlayer.crypto.envelope import Envelope, Form, identify, key_named, unwrap
from cutlayer.crypto.flood import flood
from cutlayer.crypto.needs import load
from cutlayer.crypto.packing import Packing
from cutlayer.crypto.parameters import (
    BFV_DEGREE,
    BFV_FRESH_NOISE,
    BFV_OPERAND_BYTES,
    BFV_SETS,
    SECURITY_BITS,
    STATISTICAL_BITS,
)
from cutlayer.crypto.ring import Residues, Ring
from cutlayer.crypto.rows import PlainRows
from cutlayer.crypto.scheme import Encrypted, PublicKey, Scheme, SecretKey
from cutlayer.errors import ConfigError, DataError, ProtocolError

Words = NDArray[np.uint64]
N = BFV_DEGREE


class Context:
    """SEAL's objects for one ring, and their names."""

    def __init__(self, bits: int) -> None:
        seal, chosen = load("seal"), BFV_SETS[bits]
        parms = seal.EncryptionParameters(seal.scheme_type.bfv)
        parms.set_poly_modulus_degree(N)
        parms.set_coeff_modulus(seal.CoeffModulus.Create(N, [*chosen.primes, chosen.special]))
        parms.set_plain_modulus(1 << bits)
        self.seal, self.flood_bits = seal, chosen.flood
        self.context = seal.SEALContext(parms, True, seal.sec_level_type.tc128)
        if not self.context.parameters_set():
            raise ConfigError(f"SEAL refuses these parameters at {SECURITY_BITS}-bit security.")
        self.evaluator = seal.Evaluator(self.context)
        key_primes = tuple(int(m.value()) for m in self.context.key_context_data().parms().coeff_modulus())
        self.primes = {Form.KEY: key_primes, Form.OPERAND: key_primes[:-1], Form.RESULT: key_primes[:1]}
        self.first, self.last = self.context.first_parms_id(), self.context.last_parms_id()
        self.parameters = identify("bfv", bits, N, *key_primes)
        key_level = self.context.key_context_data().parms_id()
        self.prefix = {
            Form.KEY: layout.cipher_prefix(key_level, len(key_primes), N, ntt=True),
            Form.OPERAND: layout.cipher_prefix(self.first, len(key_primes) - 1, N, ntt=True),
            Form.RESULT: layout.cipher_prefix(self.last, 1, N, ntt=False),
        }
        self.flood_prefix = layout.cipher_prefix(self.first, len(key_primes) - 1, N, ntt=False)
        self.plain_prefix = layout.plain_prefix(N)

    def plain(self, coefficients: Words) -> Any:
        """A plaintext from its coefficients."""
        plaintext = self.seal.Plaintext()
        plaintext.load_bytes(self.context, self.plain_prefix + coefficients.tobytes())
        return plaintext

    def cipher(self, prefix: bytes, residues: Words) -> Any:
        """A ciphertext from its residues."""
        ciphertext = self.seal.Ciphertext()
        ciphertext.load_bytes(self.context, prefix + residues.tobytes())
        return ciphertext

    def packing(self, shape: tuple[int, int]) -> Packing:
        """Both parties work it out from the shape of the encrypted matrix alone."""
        return Packing.fit(shape, N, BFV_OPERAND_BYTES // (2 * len(self.primes[Form.OPERAND]) * 8 * N))


context_of = cache(Context)


class BfvPublicKey(PublicKey):
    """Encrypt, and multiply blind."""

    def __init__(self, ring: Ring, words: Words) -> None:
        self.ring, self._context = ring, context_of(ring.bits)
        ctx = self._context
        self._body = layout.to_body(words, ctx.primes[Form.KEY])
        self.parameters, self.key_id = ctx.parameters, identify(ctx.parameters, self._body)
        self._key = ctx.context.from_public_str(ctx.prefix[Form.KEY] + words.tobytes())
        self._encryptor = ctx.seal.Encryptor(ctx.context, self._key)

    def encrypt(self, matrix: Residues) -> Encrypted:
        """Encrypt under the public key."""
        return self._encrypt(matrix, self._encryptor.encrypt)

    def to_bytes(self) -> bytes:
        """The bytes that cross: 0.46 MB."""
        return Envelope(Form.KEY, self.parameters, self.key_id, (1, 1), 1, len(self._body)).wrap(self._body)

    def _encrypt(self, matrix: Residues, one: Any) -> Encrypted:
        shape = self.ring.check(matrix).shape
        self._check_shape(shape)
        ctx = self._context
        parts = tuple(
            ctx.evaluator.transform_to_ntt(one(ctx.plain(polynomial)))  # ready to multiply
            for polynomial in ctx.packing(shape).operand(matrix)
        )
        return Encrypted(self, Form.OPERAND, (shape[0], shape[1]), shape[0], parts)

    def _multiply(self, rows: PlainRows, encrypted: Encrypted, mask: Residues, sanitise: bool) -> list[Any]:
        packing = self._context.packing(encrypted.shape)
        results = []
        for block, span in enumerate(packing.spans()):
            operands = encrypted.parts[block * packing.groups : (block + 1) * packing.groups]
            for number, chunk in enumerate(rows.chunks(packing.capacity)):
                start = number * packing.capacity
                cover = self.ring.uniform((N,))
                some = mask[start : start + chunk.shape[0], span]
                cover[packing.places(chunk.shape[0], span)] = some
                product = self._product(chunk, packing, operands)
                self._context.evaluator.add_plain_inplace(product, self._context.plain(cover.view(np.uint64)))
                results.append(self._sanitise(product, chunk.absolute_sum()) if sanitise else product)
        return results

    def _product(self, chunk: PlainRows, packing: Packing, operands: tuple[Any, ...]) -> Any:
        """The bare sum of products; of all-zero rows a fresh zero, as SEAL has no ciphertext without randomness."""
        ctx, total = self._context, None
        for group, polynomial in packing.multipliers(chunk, self.ring.modulus):
            plain = ctx.plain(polynomial)
            ctx.evaluator.transform_to_ntt_inplace(plain, ctx.first)
            term = ctx.evaluator.multiply_plain(operands[group], plain)
            if total is None:
                total = term
            else:
                ctx.evaluator.add_inplace(total, term)
        if total is None:
            return self._encryptor.encrypt_zero()
        ctx.evaluator.transform_from_ntt_inplace(total)
        return total

    def _sanitise(self, product: Any, amplified: int) -> Any:
        self._add_fresh_zero_and_flood(product, amplified)
        self._context.evaluator.mod_switch_to_inplace(product, self._context.last)
        return product

    def _add_fresh_zero_and_flood(self, product: Any, amplified: int) -> None:
        ctx = self._context
        noise = BFV_FRESH_NOISE * (amplified + 1)
        if N * noise << STATISTICAL_BITS > 2 << ctx.flood_bits:
            raise DataError(
                f"Expected rows whose noise 2^{ctx.flood_bits} can drown, but their sum is {amplified.bit_length()} "
                "bits long; use fewer rows at once or a smaller fraction."
            )
        ctx.evaluator.add_inplace(product, self._encryptor.encrypt_zero())
        drown = np.zeros((2, len(ctx.primes[Form.OPERAND]), N), np.uint64)
        drown[0] = flood(ctx.flood_bits, ctx.primes[Form.OPERAND], N)
        ctx.evaluator.add_inplace(product, ctx.cipher(ctx.flood_prefix, drown))

    def _count(self, form: Form, shape: tuple[int, int], inner: int) -> int:
        packing = self._context.packing((inner, shape[1]))
        return packing.operands if form is Form.OPERAND else packing.results(shape[0])

    def _part_bytes(self, form: Form) -> int:
        return layout.body_size(self._context.primes[form], N)

    def _pack(self, encrypted: Encrypted) -> bytes:
        primes = self._context.primes[encrypted.form]
        return b"".join(layout.to_body(layout.residues(p.to_string(), len(primes), N), primes) for p in encrypted.parts)

    def _unpack(self, body: memoryview, form: Form) -> list[Any]:
        ctx, size = self._context, self._part_bytes(form)
        return [
            ctx.cipher(ctx.prefix[form], layout.from_body(body[start : start + size], ctx.primes[form], N))
            for start in range(0, len(body), size)
        ]


class BfvSecretKey(SecretKey):
    """Decrypt."""

    def __init__(self, ring: Ring) -> None:
        self._context = ctx = context_of(ring.bits)
        generator = ctx.seal.KeyGenerator(ctx.context)
        secret, public = generator.secret_key(), generator.create_public_key()
        words = layout.residues(public.to_string(), len(ctx.primes[Form.KEY]), N)
        self.public: BfvPublicKey = BfvPublicKey(ring, words)
        self._encryptor = ctx.seal.Encryptor(ctx.context, secret)
        self._decryptor = ctx.seal.Decryptor(ctx.context, secret)

    def encrypt(self, matrix: Residues) -> Encrypted:
        """Encrypt with the secret key, which is faster and leaves less noise."""
        return self.public._encrypt(matrix, self._encryptor.encrypt_symmetric)

    def noise_budget(self, encrypted: Encrypted) -> int:
        """Bits of room left in the noisiest ciphertext; for one's own diagnosis only, never told to a peer."""
        return min(int(self._decryptor.invariant_noise_budget(part)) for part in encrypted.parts)

    def _open(self, encrypted: Encrypted) -> Residues:
        ctx, (rows, columns) = self._context, encrypted.shape
        packing = ctx.packing((encrypted.inner, columns))
        parts = iter(self._coefficients(encrypted))
        out = np.empty((rows, columns), np.int64)
        if encrypted.form is Form.OPERAND:
            return packing.read_operand(list(parts))
        for span in packing.spans():
            for start in range(0, rows, packing.capacity):
                stop = min(start + packing.capacity, rows)
                out[start:stop, span] = next(parts)[packing.places(stop - start, span)]
        return out

    def _coefficients(self, encrypted: Encrypted) -> Iterator[Residues]:
        ctx = self._context
        for part in encrypted.parts:
            cipher = ctx.evaluator.transform_from_ntt(part) if encrypted.form is Form.OPERAND else part
            yield layout.coefficients(self._decryptor.decrypt(cipher).to_bytes(), N).view(np.int64)


class Bfv(Scheme):
    """BFV for a ring of 40 or 48 bits."""

    def __init__(self, ring: Ring) -> None:
        if ring.bits not in BFV_SETS:
            raise ConfigError(f"Expected a ring of {' or '.join(map(str, BFV_SETS))} bits for BFV, got {ring.bits}.")
        self.ring = ring

    def generate(self) -> BfvSecretKey:
        """Make a fresh key pair."""
        return BfvSecretKey(self.ring)

    def read_key(self, data: bytes | memoryview) -> BfvPublicKey:
        """Read a public key that a peer sent."""
        ctx = context_of(self.ring.bits)
        primes = ctx.primes[Form.KEY]
        named = key_named(data)
        body = unwrap(data, Envelope(Form.KEY, ctx.parameters, named, (1, 1), 1, layout.body_size(primes, N)))
        key = BfvPublicKey(self.ring, layout.from_body(body, primes, N))
        if key.key_id != named:
            raise ProtocolError("Expected a public key whose name matches its bytes, got a damaged one.")
        return key
