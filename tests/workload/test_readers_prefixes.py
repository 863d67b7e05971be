import numpy as np
import orjson
import pytest

from smetric_gym.workload.readers import links
from smetric_gym.workload.readers.blockids import ids_of_list, lift_ids, mix
from smetric_gym.workload.readers.fields import BadRow
from smetric_gym.workload.readers.prefixes import PrefixTree


def common(a, b):
    k = 0
    while k < min(len(a), len(b)) and a[k] == b[k]:
        k += 1
    return k


def random_sequences(rng, n):
    """Sequences that branch off earlier ones, of few different ids, so that unchained matches would show."""
    sequences = [rng.integers(0, 3, rng.integers(0, 6))]
    for _ in range(n - 1):
        old = sequences[rng.integers(len(sequences))]
        head = old[: rng.integers(0, len(old) + 1)]
        sequences.append(np.concatenate([head, rng.integers(0, 3, rng.integers(0, 6))]).astype(np.int64))
    return sequences


@pytest.mark.parametrize("seed", range(20))
def test_longest_shared_is_that_of_comparing_all_pairs_in_order_of_arrival(seed):
    rng = np.random.default_rng(seed)
    sequences = random_sequences(rng, 60)
    tree = PrefixTree()
    leaf = np.empty(60, dtype=np.int32)
    for part in (range(0, 7), range(7, 8), range(8, 60)):  # batches of several sizes
        some = [sequences[i] for i in part]
        offsets = np.concatenate([[0], np.cumsum([len(s) for s in some])])
        leaf[part.start : part.stop], _ = tree.add(np.concatenate(some), offsets, np.diff(offsets) // 2)
    arrival = rng.permutation(60)
    nobody, length = np.full(60, -1, dtype=np.int32), np.array([len(sequences[i]) for i in arrival])
    base, shared, _, _ = links.longest_shared(
        leaf[arrival], leaf[arrival], nobody, 8 * length, length, tree.parent, tree.depth, 8, True
    )
    for r in range(60):
        best = max((common(sequences[arrival[r]], sequences[arrival[q]]) for q in range(r)), default=0)
        assert shared[r] == 8 * best
        assert (base[r] >= 0) == (best > 0)
        if best:
            assert base[r] < r and common(sequences[arrival[r]], sequences[arrival[base[r]]]) == best


def test_a_repeated_prompt_costs_no_memory():
    tree = PrefixTree()
    ids = np.arange(10_000)
    for n in (5_000, 10_000, 10_000, 7_000):
        tree.add(ids[:n], np.array([0, n]), np.array([n]))
    assert tree.blocks == 10_000


@pytest.mark.parametrize(
    "row",
    [
        b'{"a": 1, "hash_ids": [1, 22 ,333,0], "b": "x"}',
        b'{"hash_ids":[]}',
        b'{"v": "hash_ids", "t": "\\"hash_ids\\": [9]", "hash_ids": [7]}',
        b'{"hash_ids" :\t[ 4 , 5 ]}',
        b'{"hash_ids": [123456789012345678]}',
    ],
)
def test_lifted_ids_are_those_of_the_json_parser(row):
    text, lookup = lift_ids(b"\n".join([row] * 12), lines=True)
    plain = orjson.loads(row)
    for line in text.split(b"\n"):
        found = orjson.loads(line)
        assert type(found["hash_ids"]) is int
        assert lookup(found["hash_ids"]).tolist() == plain["hash_ids"]
        assert {**found, "hash_ids": 0} == {**plain, "hash_ids": 0}


@pytest.mark.parametrize(
    "ids",
    [
        b"[1, 2",
        b"[1, 2\n]",
        b"[1,,2]",
        b"[1,]",
        b"[-1]",
        b"[01]",
        b"[1.5]",
        b'["1"]',
        b"5",
        b"null",
        b"[1234567890123456789]",
        b"[1]5",
        b"5[1]",
    ],
)
def test_odd_lists_are_left_to_the_json_parser(ids):
    row = b'{"hash_ids": ' + ids + b"}"
    text, lookup = lift_ids(row, lines=True)
    assert text == row and lookup is ids_of_list


def test_ids_of_list_keeps_the_bits_of_unsigned_ids_and_refuses_what_is_no_id():
    assert ids_of_list([2**64 - 1, 7, -2]).tolist() == [-1, 7, -2]
    for wrong in ([1.5], ["1"], [True], "12", None):
        with pytest.raises(BadRow):
            ids_of_list(wrong)


def test_mixed_names_differ():
    a, b = np.meshgrid(np.arange(300), np.arange(300))
    assert len(np.unique(mix(a.ravel(), b.ravel()))) == 90_000
