"""The scripts of the mixtures run, on their smallest settings, and go on where they stopped."""

import csv

import numpy as np
import pytest
from tests.published import at_hand

import bayescut as bc
from bayescut.datasets import DEBD_NAMES


@pytest.fixture(scope="module")
def em_mixtures(load):
    return load("em_mixtures")


@pytest.fixture(scope="module")
def binary_mnist(load):
    pytest.importorskip("matplotlib")
    return load("binary_mnist")


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_order_of_the_sets(em_mixtures):
    assert sorted(em_mixtures.BY_SIZE) == sorted(DEBD_NAMES)
    assert set(em_mixtures.AUTHORS) <= set(DEBD_NAMES)
    assert em_mixtures.paper_values()["nltcs"] == -6.032


def test_fit_one_set_once(em_mixtures, tmp_path, capsys, monkeypatch):
    test = at_hand("nltcs").test
    arguments = ["fit", "--sets", "nltcs", "--rows", "400", "--results", str(tmp_path)]
    seen = []
    score = bc.EMCNetBD.score
    monkeypatch.setattr(bc.EMCNetBD, "score", lambda self, X: seen.append(len(X)) or score(self, X))
    em_mixtures.main(arguments)
    assert seen[-1] == len(test)  # all of the test part, whatever was learned from
    (line,) = read(tmp_path / "em_mixtures.csv")
    assert (line["dataset"], line["rows"], line["columns"]) == ("nltcs", "800", "16")
    assert line["chosen"] in {"2", "3", "5", "8", "10", "20"}
    assert line["validation"].startswith("2:-") and line["validation"].count(":") == 6
    difference = 100 * (float(line["test_ll"]) + 6.032) / 6.032
    assert float(line["difference_percent"]) == pytest.approx(difference, abs=1e-2)
    em_mixtures.main(arguments)
    assert "there already" in capsys.readouterr().out
    assert len(read(tmp_path / "em_mixtures.csv")) == 1
    assert "| nltcs | " in (tmp_path / "em_mixtures.md").read_text()


def test_speed_of_one_set(em_mixtures, tmp_path, monkeypatch):
    at_hand("nltcs")
    monkeypatch.setattr(em_mixtures, "REPETITIONS", 1)
    em_mixtures.main(["speed", "--sets", "nltcs", "--rows", "500", "--results", str(tmp_path)])
    (line,) = read(tmp_path / "em_speed.csv")
    assert (line["components"], line["iterations"]) == ("10", "4")
    parts = sum(float(line[key]) for key in ("first_s", "e_step_s", "m_step_s"))
    assert parts == pytest.approx(float(line["seconds"]), abs=1e-3)
    assert float(line["ratio"]) == pytest.approx(6.3 / float(line["seconds"]), rel=0.05)
    assert "Speed" in (tmp_path / "em_mixtures.md").read_text()


def test_mnist_in_small(binary_mnist, tmp_path, capsys):
    at_hand("binarized_mnist")
    arguments = ["--small", "--rows", "60", "--results", str(tmp_path)]
    arguments += ["--models", "CNetBD", "EM-3"]
    binary_mnist.main(arguments)
    lines = read(tmp_path / "binary_mnist.csv")
    assert [line["model"] for line in lines] == ["CNetBD", "EM-3"]
    for line in lines:
        model = bc.load(tmp_path / "models" / f"mnist_{line['model']}.bc")
        assert model.n_parameters_ == int(line["parameters"])
        for what in ("samples", "inpainting"):
            picture = tmp_path / "figures" / f"mnist_{line['model']}_{what}.png"
            assert picture.read_bytes().startswith(b"\x89PNG")
            assert picture.stat().st_size < 300_000
    assert not list((tmp_path / "models").glob("*.checkpoint"))
    assert "| EM-3 | " in (tmp_path / "binary_mnist.md").read_text()
    capsys.readouterr()
    binary_mnist.main([*arguments, "--models", "CNetBD"])
    assert "there already" in capsys.readouterr().out


def test_interrupted_mixture_goes_on(binary_mnist, tmp_path, monkeypatch):
    X = np.random.default_rng(0).integers(0, 2, (200, 12), dtype=np.uint8)
    checkpoint = tmp_path / "mixture.checkpoint"

    def make(path):
        return bc.CutsetMixture(3, max_iter=3, tol=0.0, random_state=0, checkpoint=path)

    keep = bc.CutsetMixture._save_checkpoint

    def interrupted(self):
        keep(self)
        if len(self.lower_bounds_) == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(bc.CutsetMixture, "_save_checkpoint", interrupted)
        binary_mnist.fit_timed(make, X, checkpoint)
    spent = float(checkpoint.with_suffix(".seconds").read_text().split()[0])
    with pytest.warns(UserWarning, match="did not converge"):
        model, seconds, _, resumed = binary_mnist.fit_timed(make, X, checkpoint)
    assert resumed and seconds > spent
    assert not list(tmp_path.iterdir())
    with pytest.warns(UserWarning, match="did not converge"):
        whole = make(None).fit(X)
    assert model.lower_bounds_ == whole.lower_bounds_
    assert model.circuit_ == whole.circuit_


def test_mnist_refuses_unknown_models(binary_mnist, capsys):
    with pytest.raises(SystemExit):
        binary_mnist.main(["--models", "EM-7"])
    assert "unknown models EM-7" in capsys.readouterr().err


def test_images_from_all_over(binary_mnist):
    rows = np.arange(100, dtype=np.uint8)[:, None]
    assert binary_mnist.spread(rows, 5).ravel().tolist() == [10, 30, 50, 70, 90]
    assert binary_mnist.spread(rows, 100).tolist() == rows.tolist()
