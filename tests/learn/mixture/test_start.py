"""Starting clusters against principal components by numpy."""

import numpy as np
import pytest
from tests.learn.small import table_of

from bayescut.learn.mixture import start
from bayescut.learn.mixture.start import KMeansStart


def one_hot(codes, sizes):
    """Reduced one-hot columns: state 0 has none."""
    columns = [codes[:, j] == state for j, k in enumerate(sizes) for state in range(1, k)]
    return np.stack(columns, axis=1).astype(float)


def naive_points(codes, sizes, weights, n_directions):
    """Leading principal components by the singular values of the centred, weighted rows."""
    bits = one_hot(codes, sizes)
    weights = np.ones(len(bits)) if weights is None else weights
    bits = bits - np.average(bits, axis=0, weights=weights)
    _, _, directions = np.linalg.svd(np.sqrt(weights)[:, None] * bits, full_matrices=False)
    return bits @ directions[:n_directions].T


def distances(points):
    return ((points[:, None] - points[None]) ** 2).sum(axis=2)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("most_states", [2, 4])
def test_rows_are_as_far_from_each_other_as_among_principal_components(most_states, weighted):
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, most_states + 1, 50)
    sizes[:2] = most_states
    group = rng.integers(0, 3, 120)
    codes = (rng.random((120, 50)) < 0.2 + 0.3 * group[:, None]) * rng.integers(0, sizes, (120, 50))
    codes = codes.astype(np.uint8)
    weights = rng.integers(0, 4, 120) * 0.5 if weighted else None
    n_bits = int((sizes - 1).sum())
    for n_directions in (1, 5, 30):
        if n_bits <= n_directions:
            continue
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(start, "_DIRECTIONS", n_directions)
            found = KMeansStart(table_of(codes, sizes, weights), 3).points
        assert found.shape == (120, n_directions)
        expected = naive_points(codes, sizes, weights, n_directions)
        np.testing.assert_allclose(distances(found), distances(expected), rtol=1e-3, atol=1e-3)


def test_few_columns_are_taken_as_they_are():
    rng = np.random.default_rng(1)
    sizes = np.array([2, 3, 1, 4])
    codes = rng.integers(0, sizes, (40, 4)).astype(np.uint8)
    np.testing.assert_array_equal(
        KMeansStart(table_of(codes, sizes), 3).points, one_hot(codes, sizes)
    )


def test_slabs_of_rows_do_not_matter(monkeypatch):
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 2, (100, 40)).astype(np.uint8)
    sizes = np.full(40, 2)
    whole = KMeansStart(table_of(codes, sizes), 3).points
    monkeypatch.setattr(start, "_SLAB_ROWS", 7)
    np.testing.assert_allclose(KMeansStart(table_of(codes, sizes), 3).points, whole, atol=1e-5)


@pytest.mark.parametrize("most_rows", [None, 20])
def test_labels(most_rows):
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 2, (200, 35)).astype(np.uint8)
    clusters = KMeansStart(table_of(codes, np.full(35, 2)), 5)
    labels = clusters.labels(5, seed=1, most_rows=most_rows)
    assert labels.shape == (200,)
    assert set(labels) <= set(range(5))
    np.testing.assert_array_equal(labels, clusters.labels(5, seed=1, most_rows=most_rows))
    assert (labels != clusters.labels(5, seed=2, most_rows=most_rows)).any()


def test_little_to_cluster():
    sizes = np.full(3, 2)
    row = np.array([[0, 1, 0]], dtype=np.uint8)
    np.testing.assert_array_equal(KMeansStart(table_of(row, sizes), 4).labels(4, 0), [0])
    same = np.repeat(row, 6, axis=0)
    assert len(set(KMeansStart(table_of(same, sizes), 4).labels(4, 0))) == 1
    constant = np.zeros((5, 40), dtype=np.uint8)
    assert len(set(KMeansStart(table_of(constant, np.full(40, 2)), 3).labels(3, 0))) == 1
    np.testing.assert_array_equal(
        KMeansStart(table_of(constant, np.ones(40, int)), 3).labels(3, 0), np.zeros(5)
    )
    few = np.random.default_rng(5).integers(0, 2, (10, 2000)).astype(np.uint8)
    assert KMeansStart(table_of(few, np.full(2000, 2)), 3).labels(3, 0).max() == 2


def test_many_clusters_have_more_directions():
    """Few clusters of a start for many are those of a start for few."""
    for n_columns, most in ((60, 40), (35, 35), (20, 20)):
        codes = np.random.default_rng(6).integers(0, 2, (400, n_columns)).astype(np.uint8)
        sizes = np.full(n_columns, 2)
        few, many = (KMeansStart(table_of(codes, sizes), size) for size in (4, 200))
        assert few.points.shape == (400, min(n_columns, 30))
        assert many.points.shape == (400, most)
        np.testing.assert_array_equal(few.labels(4, 0), many.labels(4, 0))
        assert len(set(many.labels(200, 0))) == 200
