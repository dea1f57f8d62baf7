from cutlayer.bench import he
from cutlayer.bench.parts import blind_step
from cutlayer.crypto import Bfv, Paillier


def small(name, ring):
    return Bfv(ring) if name == "bfv" else Paillier(ring, 512, for_tests=True)


def test_the_benchmark_measures_both_sides_at_every_shape(monkeypatch):
    monkeypatch.setattr(he, "KEY_BITS", 512)
    monkeypatch.setattr(he, "SHAPES", ((3, 64),))
    monkeypatch.setattr(he, "WIDE", (90, 64))
    monkeypatch.setattr(blind_step, "scheme_named", small)
    result = he.measure(1)
    assert result["blind_step_ratio"] > 0 and result["bytes_blind_step"] < 6e6
    assert result["ratio"] == result["ratio_packed_3x64"] > 0
    assert result["wide_encrypt_speedup"] > 0
    assert result["bytes_per_output_3x64"] <= 20 and result["seconds_bfv_3x64"] > 0


def test_both_sides_compute_the_same(monkeypatch):
    monkeypatch.setattr(he, "KEY_BITS", 512)
    ring = he.Ring()
    theirs = he.Theirs(ring, (3, 5), he.load("phe").generate_paillier_keypair(n_length=512))
    rows, matrix = he.numbers(ring, (3, 5))
    total = sum(column[0] * value for column, value in zip(theirs.packed, theirs.row, strict=True))
    cover = next(theirs.slots.cover(ring.wrap(0 * matrix[0])))
    opened = theirs.slots.read([theirs.private.raw_decrypt((total + cover).ciphertext())], theirs.slots.each)
    assert (opened == ring.matmul(rows[:1], matrix)[0, : len(opened)]).all()
