"""The few array operations of a network: NumPy on the processor, PyTorch where there is a GPU.

Arrays of both know ``@``, arithmetic, slices, ``reshape``, ``swapaxes`` and ``sum``; what they call
differently is here. Random numbers are NumPy's in either case, so that the same seed starts from
the same network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Backend", "NumpyBackend", "TorchBackend", "make_backend"]


class Backend(Protocol):
    """Array operations.

    Attributes
    ----------
    block_rows : int
        Rows that are worked on at a time.
    """

    block_rows: int

    def put(self, array: NDArray[Any]) -> Any:
        """A copy as numbers of the backend's type."""

    def index(self, array: NDArray[Any]) -> Any:
        """Whole numbers to index with."""

    def get(self, array: Any) -> NDArray[Any]:
        """A NumPy array of its own."""

    def zeros(self, *shape: int) -> Any:
        """Zeros."""

    def copy(self, array: Any) -> Any:
        """A copy."""

    def exp(self, array: Any) -> Any:
        """Exponential function."""

    def log(self, array: Any) -> Any:
        """Logarithm, -inf of 0."""

    def peak(self, array: Any, axis: int) -> Any:
        """Largest entries along an axis."""

    def at_least(self, array: Any, low: float) -> Any:
        """The array, or `low` where that is more."""

    def each(self, work: Callable[[int, int], None], n: int, n_bytes: int) -> None:
        """Do ``work(begin, end)`` for ranges that make up 0 .. n.

        ``n_bytes`` is what one item takes. No result may depend on the ranges, or on their order.
        """

    def busy(self) -> Any:
        """Context in which work is done."""


class NumpyBackend:
    """NumPy, in threads of its own."""

    # 200 partitions of 18 x 18 products, 50,000 rows: 12.4 s of processor time an epoch with 256
    # rows in chunks of 512 KB, 12.1 to 14.6 with 128 to 512 rows, one to eight partitions a chunk.
    block_rows = 256
    _chunk_bytes = 2**19

    def __init__(self, dtype: str = "float32", n_jobs: int = 1) -> None:
        self.dtype = np.dtype(dtype)
        self.n_jobs = n_jobs
        self._executor: ThreadPoolExecutor | None = None

    def put(self, array: NDArray[Any]) -> Any:
        return np.array(array, dtype=self.dtype, order="C")

    def index(self, array: NDArray[Any]) -> Any:
        return np.asarray(array, dtype=np.int64)

    def get(self, array: Any) -> NDArray[Any]:
        return np.array(array)

    def zeros(self, *shape: int) -> Any:
        return np.zeros(shape, dtype=self.dtype)

    def copy(self, array: Any) -> Any:
        return array.copy()

    def exp(self, array: Any) -> Any:
        return np.exp(array)

    def log(self, array: Any) -> Any:
        with np.errstate(divide="ignore"):
            return np.log(array)

    def peak(self, array: Any, axis: int) -> Any:
        return array.max(axis=axis)

    def at_least(self, array: Any, low: float) -> Any:
        return np.maximum(array, self.dtype.type(low))

    def each(self, work: Callable[[int, int], None], n: int, n_bytes: int) -> None:
        size = max(1, self._chunk_bytes // n_bytes)
        n_jobs = 1 if self._executor is None else min(self.n_jobs, -(-n // size))

        def part(thread: int) -> None:
            for begin in range(thread * size, n, n_jobs * size):
                work(begin, min(begin + size, n))

        if n_jobs == 1 or self._executor is None:
            part(0)
        else:
            list(self._executor.map(part, range(n_jobs)))

    @contextmanager
    def busy(self) -> Iterator[None]:
        from threadpoolctl import threadpool_limits

        # Matrices are too small to be shared out: each thread multiplies its own, which is also
        # what makes results independent of the number of threads.
        with threadpool_limits(limits=1, user_api="blas"):
            if self.n_jobs == 1 or self._executor is not None:
                yield
                return
            with ThreadPoolExecutor(self.n_jobs) as executor:
                self._executor = executor
                try:
                    yield
                finally:
                    self._executor = None


class TorchBackend:
    """PyTorch, on a GPU or on the processor."""

    _chunk_bytes = 2**29

    def __init__(self, dtype: str = "float32", device: str | None = None) -> None:
        try:
            import torch
        except ImportError as error:
            raise ImportError(
                "backend='torch' needs PyTorch, which is not installed: "
                "pip install 'bayescut[gpu]', or use backend='numpy'"
            ) from error
        self._torch = torch
        if device is None:
            device = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            self.device = torch.device(device)
            torch.zeros(1, device=self.device)
        except (RuntimeError, AssertionError) as error:
            raise ValueError(f"PyTorch cannot use device={device!r}: {error}") from error
        self.dtype = getattr(torch, dtype)
        # A GPU needs much work at a time; a larger block costs memory alone.
        self.block_rows = 256 if self.device.type == "cpu" else 1280
        if self.device.type == "cpu":
            self._chunk_bytes = 2**21

    def put(self, array: NDArray[Any]) -> Any:
        return self._torch.tensor(array, dtype=self.dtype, device=self.device)

    def index(self, array: NDArray[Any]) -> Any:
        return self._torch.from_numpy(np.asarray(array, dtype=np.int64)).to(self.device)

    def get(self, array: Any) -> NDArray[Any]:
        return array.detach().to("cpu", copy=True).numpy()

    def zeros(self, *shape: int) -> Any:
        return self._torch.zeros(shape, dtype=self.dtype, device=self.device)

    def copy(self, array: Any) -> Any:
        return array.clone()

    def exp(self, array: Any) -> Any:
        return self._torch.exp(array)

    def log(self, array: Any) -> Any:
        return self._torch.log(array)

    def peak(self, array: Any, axis: int) -> Any:
        return array.amax(axis)

    def at_least(self, array: Any, low: float) -> Any:
        return array.clamp(min=low)

    def each(self, work: Callable[[int, int], None], n: int, n_bytes: int) -> None:
        size = max(1, self._chunk_bytes // n_bytes)
        for begin in range(0, n, size):
            work(begin, min(begin + size, n))

    @contextmanager
    def busy(self) -> Iterator[None]:
        with self._torch.no_grad():
            yield


def make_backend(
    name: str = "numpy", device: str | None = None, dtype: str = "float32", n_jobs: int = 1
) -> Backend:
    """Return the backend of a name.

    Parameters
    ----------
    name : {"numpy", "torch"}
        NumPy, or PyTorch.
    device : str or None
        Device of PyTorch, such as "cuda", "cuda:1" or "cpu"; None: a GPU if there is one.
    dtype : {"float32", "float64"}
        Type of all numbers.
    n_jobs : int
        Threads of NumPy; PyTorch has its own.
    """
    if dtype not in ("float32", "float64"):
        raise ValueError(f"dtype must be 'float32' or 'float64', got {dtype!r}")
    if name == "torch":
        return TorchBackend(dtype, device)
    if name != "numpy":
        raise ValueError(f"backend must be 'numpy' or 'torch', got {name!r}")
    if device not in (None, "cpu"):
        raise ValueError(
            f"device must be None with backend='numpy', got {device!r}: a GPU needs backend='torch'"
        )
    return NumpyBackend(dtype, n_jobs)
