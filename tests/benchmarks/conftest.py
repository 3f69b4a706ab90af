from importlib import import_module

import pytest


@pytest.fixture(scope="session")
def load():
    """Return a function that imports a benchmark script by its name."""
    return import_module
