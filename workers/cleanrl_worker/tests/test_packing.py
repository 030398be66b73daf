"""Values survive the way into a checkpoint and back, as what they were."""

from collections import deque
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from cleanrl_worker.packing import Packer, Unpackable, Unpacker
from hypothesis import given, settings
from hypothesis import strategies as st

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**200), 2**200) | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=20,
)


def there_and_back(value: Any) -> Any:
    packer = Packer()
    node = msgspec.json.decode(msgspec.json.encode(packer.pack(value)))
    return Unpacker(packer.arrays).unpack(node)


@settings(deadline=None)
@given(plain)
def test_plain_values(value: Any) -> None:
    # repr tells -0.0 from 0.0, True from 1, a tuple from a list, and calls NaN equal to itself.
    assert repr(there_and_back(value)) == repr(value)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3)])
def test_arrays_keep_dtype_and_shape(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    result = there_and_back(array)
    assert result.dtype == array.dtype
    assert np.array_equal(result, array)
    assert torch.equal(there_and_back(torch.from_numpy(array)), torch.from_numpy(array))


@pytest.mark.parametrize("array", [np.array([[b"S", b"FH"]]), np.array("text"), np.array([], "M8[s]"), np.array([1j])])
def test_arrays_of_no_numbers(array: np.ndarray[Any, Any]) -> None:
    result = there_and_back(array)
    assert (result.dtype, result.shape, result.tolist()) == (array.dtype, array.shape, array.tolist())


def test_scalars_and_deques() -> None:
    assert type(there_and_back(np.float64(0.1))) is np.float64
    kept = there_and_back(deque([1, 2], maxlen=2))
    assert kept == deque([1, 2]) and kept.maxlen == 2


def test_random_generators_go_on_where_they_were() -> None:
    random = np.random.default_rng(7)
    random.random(3)
    assert there_and_back(random).random() == random.random()


def test_what_cannot_be_kept_is_refused() -> None:
    for value in (object(), np.array([object()]), [lambda: None]):
        with pytest.raises(Unpackable):
            Packer().pack(value)
