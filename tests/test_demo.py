import sys

import numpy as np
import pytest

from bayescut import demo
from bayescut.datasets import load_binary_digits


def test_demo_prints_a_table_and_draws(tmp_path, capsys):
    image = pytest.importorskip("matplotlib.image")
    folder = tmp_path / "new" / "folder"
    assert demo.main(["--output", str(folder)]) == 0
    said = capsys.readouterr().out
    assert "compiles the kernels" in said
    for name, _ in demo.LEARNERS:
        assert name in said
    tasks = ("left_half", "lower_half", "random_half")
    pictures = {"samples.png", *(f"inpainting_{task}.png" for task in tasks)}
    assert {path.name for path in folder.iterdir()} == pictures
    for name in pictures:
        assert str(folder / name) in said
        picture = image.imread(folder / name)
        assert picture.shape[0] > 200 and picture.shape[1] > 400


def test_results_are_those_of_the_learners(tmp_path):
    results = demo.run(tmp_path)
    data = load_binary_digits()
    X = np.vstack([data.train, data.valid])
    assert [r.name for r in results] == [name for name, _ in demo.LEARNERS]
    for result, (_, make) in zip(results, demo.LEARNERS, strict=True):
        model = make().fit(X)
        assert result.n_parameters == model.n_parameters_
        assert result.test_log_likelihood == pytest.approx(model.score(data.test))
        assert result.structure_score == getattr(model, "structure_score_", None)


def test_demo_without_extras_says_what_to_install(tmp_path, capsys, monkeypatch):
    for module in list(sys.modules):
        if module.split(".")[0] in ("rich", "matplotlib"):
            monkeypatch.setitem(sys.modules, module, None)
    for module in ("rich", "rich.console", "matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, module, None)
    assert demo.main(["--output", str(tmp_path / "pictures")]) == 0
    said = capsys.readouterr().out
    assert "bayescut[plot]" in said and "bayescut[cli]" in said
    assert "test log-likelihood" in said and "CNetBD" in said
    assert not (tmp_path / "pictures").exists()


def test_a_learner_without_structure_score_has_an_empty_cell():
    result = demo.Result("X", None, -1.0, 3, 0.5, None)
    assert result.cells() == ("X", "-1.000", "3", "0.500", "")
