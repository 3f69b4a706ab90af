import importlib.util
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="session")
def load():
    """Return a function that imports a benchmark script by its name."""
    loaded = {}

    def script(name):
        if name not in loaded:
            spec = importlib.util.spec_from_file_location(
                f"benchmark_{name}", BENCHMARKS / f"{name}.py"
            )
            loaded[name] = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = loaded[name]
            spec.loader.exec_module(loaded[name])
        return loaded[name]

    # A script finds the module beside it as Python puts the folder of a script on the path.
    sys.path.append(str(BENCHMARKS))
    yield script
    sys.path.remove(str(BENCHMARKS))
