import numpy as np
import pytest

import bayescut as bc
from bayescut.datasets import load_binary_digits
from bayescut.plots import half_masks, inpainting_panels, sample_panels

SHAPE = (8, 8)
N = 6


@pytest.fixture(scope="module")
def digits():
    return load_binary_digits()


@pytest.fixture(scope="module")
def models(digits):
    return {"one": bc.CNetBD().fit(digits.train), "two": bc.CNetBIC().fit(digits.train)}


def test_masks_hide_half():
    left, lower, some = (mask.reshape(28, 20) for mask in half_masks((28, 20)).values())
    assert left[:, :10].all() and not left[:, 10:].any()
    assert lower[14:].all() and not lower[:14].any()
    assert 0.4 < some.mean() < 0.6
    again, other = (half_masks((28, 20), seed)["random half"] for seed in (0, 1))
    np.testing.assert_array_equal(some.ravel(), again)
    assert (again != other).any()


def test_as_many_samples_as_real_images(models, digits):
    panels = sample_panels(models, digits.test[:N], random_state=3)
    assert [panel.title for panel in panels] == ["real images", "one: samples", "two: samples"]
    np.testing.assert_array_equal(panels[0].rows, digits.test[:N])
    np.testing.assert_array_equal(panels[1].rows, models["one"].sample(N, random_state=3))


def test_order_of_the_panels(models, digits):
    masks = half_masks(SHAPE)
    titles = [panel.title for panel in inpainting_panels(models, digits.test[:N], masks)]
    assert len(titles) == 1 + 3 * (1 + 2 * 2)
    assert titles[:6] == [
        "originals", "left half hidden", "one: most probable completion",
        "one: 2 completions drawn", "two: most probable completion", "two: 2 completions drawn",
    ]  # fmt: skip
    assert titles[6] == "lower half hidden" and titles[11] == "random half hidden"
    single = inpainting_panels(models, digits.test[:N], masks, n_draws=1)
    assert single[3].title == "one: completion drawn"


@pytest.mark.parametrize("task", ["left half", "lower half", "random half"])
def test_completions_keep_what_was_seen(models, digits, task):
    mask = half_masks(SHAPE)[task]
    real = digits.test[:N]
    _, seen, best, drawn, *_ = inpainting_panels(models, real, {task: mask}, n_draws=3)
    np.testing.assert_array_equal(np.isnan(seen.rows), np.broadcast_to(mask, real.shape))
    np.testing.assert_array_equal(best.rows, models["one"].mpe(seen.rows))
    for line in np.asarray(drawn.rows).reshape(3, N, -1):  # every image is a column of the picture
        np.testing.assert_array_equal(line[:, ~mask], real[:, ~mask])
    for panel in (best, drawn):
        np.testing.assert_array_equal(panel.drawn, mask)


def test_same_seed_same_draws(models, digits):
    masks = half_masks(SHAPE)
    first, again, other = (
        np.asarray(inpainting_panels(models, digits.test[:N], masks, random_state=seed)[-1].rows)
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
