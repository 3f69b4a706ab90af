from __future__ import annotations

import pytest

from bayescut.datasets import DEBD_NAMES, fetch_debd
from bayescut.datasets._manifest import MANIFEST, resolve_debd_name


@pytest.mark.parametrize("name", DEBD_NAMES)
def test_file_names_stand_for_themselves(name: str) -> None:
    assert resolve_debd_name(name) == name
    assert resolve_debd_name(name.upper()) == name


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("audio", "baudio"),
        ("Netflix", "bnetflix"),
        ("Jester", "jester"),
        ("retail", "tretail"),
        ("pumsb", "pumsb_star"),
        ("Pumsb*", "pumsb_star"),
        ("pumsb-star", "pumsb_star"),
        ("WebKB", "cwebkb"),
        ("Reuters-52", "cr52"),
        ("reuters", "cr52"),
        ("20ng", "c20ng"),
        ("20 Newsgroups", "c20ng"),
        ("movie", "tmovie"),
        ("EachMovie", "tmovie"),
        ("KDDCup2k", "kdd"),
    ],
)
def test_customary_names(alias: str, name: str) -> None:
    assert resolve_debd_name(alias) == name


def test_unknown_name_lists_the_names_and_a_near_one() -> None:
    with pytest.raises(ValueError, match="Did you mean 'nltcs'") as caught:
        fetch_debd("nltsc")
    assert all(name in str(caught.value) for name in DEBD_NAMES)


def test_unknown_name_without_a_near_one() -> None:
    with pytest.raises(ValueError, match=r"Unknown data set 'qqqqqq'\. The benchmark sets are"):
        fetch_debd("qqqqqq")


def test_mnist_is_sent_to_its_own_loader() -> None:
    with pytest.raises(ValueError, match="fetch_binary_mnist"):
        fetch_debd("mnist")


@pytest.mark.parametrize("name", [None, 3, b"nltcs"])
def test_name_must_be_a_string(name: object) -> None:
    with pytest.raises(TypeError, match="is a string"):
        fetch_debd(name)  # type: ignore[arg-type]


def test_size_follows_from_the_shape() -> None:
    assert MANIFEST["nltcs", "train"].n_bytes == 517_792
