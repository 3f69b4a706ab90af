"""What models draw, and how they complete images of which half is hidden."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayescut.plots.images import Panel

__all__ = ["half_masks", "inpainting_panels", "sample_panels"]


def half_masks(shape: tuple[int, int], random_state: Any = 0) -> dict[str, NDArray[np.bool_]]:
    """Hidden pixels of the three usual tasks.

    Parameters
    ----------
    shape : (int, int)
        Height and width of an image.
    random_state : int or numpy Generator
        Decides which pixels ``random half`` hides, each with probability one half.

    Returns
    -------
    dict of str to bool array of shape (height * width,)
        ``left half``, ``lower half`` and ``random half``.

    Examples
    --------
    >>> from bayescut.plots import half_masks
    >>> half_masks((2, 2))["left half"]
    array([ True, False,  True, False])
    """
    height, width = shape
    line, column = np.divmod(np.arange(height * width), width)
    return {
        "left half": column < width // 2,
        "lower half": line >= height // 2,
        "random half": np.random.default_rng(random_state).random(height * width) < 0.5,
    }


def sample_panels(
    models: Mapping[str, Any], real: ArrayLike, *, random_state: Any = 0
) -> list[Panel]:
    """Real images, and as many drawn from every model.

    Parameters
    ----------
    models : mapping of str to estimator
        Fitted models by the name to write above their samples.
    real : array-like of shape (n, height * width)
        One image per row.
    random_state : int
        Seed of the draws, the same for every model.

    Returns
    -------
    list of Panel
        For `image_panels`.

    Examples
    --------
    >>> import bayescut as bc
    >>> from bayescut.datasets import load_binary_digits
    >>> from bayescut.plots import sample_panels
    >>> digits = load_binary_digits()
    >>> model = bc.CNetBD().fit(digits.train)
    >>> [panel.title for panel in sample_panels({"CNetBD": model}, digits.test[:25])]
    ['real images', 'CNetBD: samples']
    """
    n = len(np.asarray(real))
    return [Panel("real images", real)] + [
        Panel(f"{name}: samples", model.sample(n, random_state=random_state))
        for name, model in models.items()
    ]


def inpainting_panels(
    models: Mapping[str, Any],
    real: ArrayLike,
    hidden: Mapping[str, NDArray[np.bool_]],
    *,
    n_draws: int = 2,
    random_state: Any = 0,
) -> list[Panel]:
    """Real images, then for every task what is seen of them and how every model completes it.

    A model completes twice: by its most probable completion (``mpe``, an approximation on
    mixtures) and by draws given what is seen. Every image is a column if `image_panels` gets
    ``n_columns=len(real)``. Pixels that a model filled in are marked.

    Parameters
    ----------
    models : mapping of str to estimator
        Fitted models by the name to write above their completions.
    real : array-like of shape (n, height * width)
        One image per row.
    hidden : mapping of str to bool array of shape (height * width,)
        Hidden pixels of every task by its name, as from `half_masks`.
    n_draws : int
        Completions drawn for each image.
    random_state : int
        Seed of the draws, the same for every model and task.

    Returns
    -------
    list of Panel
        The originals; for every task the images as seen; for every model in it the most probable
        completions and ``n_draws`` lines of draws.

    Examples
    --------
    >>> import bayescut as bc
    >>> from bayescut.datasets import load_binary_digits
    >>> from bayescut.plots import half_masks, image_panels, inpainting_panels
    >>> digits = load_binary_digits()
    >>> model = bc.CNetBD().fit(digits.train)
    >>> panels = inpainting_panels({"CNetBD": model}, digits.test[:12], half_masks((8, 8)))
    >>> [panel.title for panel in panels[:3]]
    ['originals', 'left half hidden', 'CNetBD: most probable completion']
    >>> figure = image_panels(panels, (8, 8), n_columns=12, across=1)  # doctest: +SKIP
    """
    rows = np.asarray(real, dtype=np.float64)
    panels = [Panel("originals", rows)]
    for task, mask in hidden.items():
        seen = np.where(mask, np.nan, rows)
        panels.append(Panel(f"{task} hidden", seen))
        for name, model in models.items():
            drawn = model.sample(n_draws, evidence=seen, random_state=random_state)
            # All draws of an image come together; in the picture they stand below each other.
            drawn = np.asarray(drawn).reshape(len(rows), n_draws, -1).swapaxes(0, 1)
            what = "completion drawn" if n_draws == 1 else f"{n_draws} completions drawn"
            panels += [
                Panel(f"{name}: most probable completion", model.mpe(seen), mask),
                Panel(f"{name}: {what}", drawn.reshape(-1, rows.shape[1]), mask),
            ]
    return panels
