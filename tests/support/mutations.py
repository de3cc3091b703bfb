"""Untrusted files: valid ones with small changes, and well-formed nonsense."""

import json
import struct

from hypothesis import strategies as st

INTERESTING = [
    *(b"\0", b"\xff", b"\0\0\0\0", b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\x7f\xff\xff\xff"),
    *(b"0", b"-1", b"1e999", b"nan", b"9" * 25, b"9" * 5000, b"2147483647", b"[" * 200),
    *(b'"', b"'", b",", b"\n", b"\r", b"{", b"}", b"\xef\xbb\xbf", b"\x1b[2J", b"../../x"),
    struct.pack("<Q", 1 << 62),
]


@st.composite
def mutated(draw: st.DrawFn, seeds: list[bytes]) -> bytes:
    """Sample one of the given files with up to eight changes, or arbitrary bytes."""
    if draw(st.integers(0, 19)) == 0:
        return draw(st.binary(max_size=300))
    content = bytearray(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(1, 8))):
        at = draw(st.integers(0, len(content)))
        length = draw(st.integers(0, 40))
        kind = draw(st.integers(0, 5))
        if kind == 0:
            del content[at:]
        elif kind == 1:
            del content[at : at + length]
        elif kind == 2 and at < len(content):
            content[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == 3:
            new = draw(st.sampled_from(INTERESTING))
            content[at : at + draw(st.sampled_from([0, len(new)]))] = new
        elif kind == 4:
            content[at:at] = content[at : at + length] * draw(st.integers(1, 3))
        elif kind == 5:
            other = draw(st.sampled_from(seeds))
            start = draw(st.integers(0, len(other)))
            content[at : at + length] = other[start : start + length]
    return bytes(content)


NUMBERS = st.one_of(
    st.integers(),
    st.sampled_from([0, 1, -1, 2**31, 2**53, 2**63, 2**64, 10**30, 10**400, True]),
    st.floats(),
)
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, st.text(max_size=20))
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)


@st.composite
def changed_within(draw: st.DrawFn, settings: dict) -> dict:
    """Sample nested settings of which some are changed, missing or renamed."""
    changed = json.loads(json.dumps(settings))
    for _ in range(draw(st.integers(1, 3))):
        place = changed
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(place[key], dict | list) and draw(st.booleans()):
                place = place[key]
                continue
            kind = draw(st.integers(0, 5))
            if kind == 0:
                del place[key]
            elif kind == 1 and isinstance(place, dict):
                place[draw(st.text(max_size=8))] = draw(VALUES)
            else:
                place[key] = draw(VALUES)
            break
    return changed
