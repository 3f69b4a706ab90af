"""What stands around the tests: the cache of compiled kernels, the floors, the extras."""

import os
import shutil
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numba
import pytest

import bayescut

ROOT = Path(__file__).resolve().parents[1]


def ask(*command, **environment):
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment},
        check=True,
    )
    return done.stdout.strip()


def test_kernels_of_other_sources_are_never_run(tmp_path):
    shutil.copy(ROOT / "conftest.py", tmp_path)
    package = tmp_path / "src" / "package"
    package.mkdir(parents=True)
    files = {
        "kernel.py": "import numba\nfrom package.called import (\n    one,\n)\n",
        "called.py": "from package import constants\none = constants.ONE\n",
        "constants.py": "ONE = 1\n",
        "commands.py": "import package.kernel\n",
    }
    for name, text in files.items():
        (package / name).write_text(text)

    def place(base=""):
        return Path(ask(sys.executable, str(tmp_path / "conftest.py"), NUMBA_CACHE_DIR=base))

    first = place()
    assert first.parent == tmp_path / "build" / "numba"
    assert place("/elsewhere") == Path("/elsewhere", first.name)
    assert place(str(first)) == first  # make has set it already
    (package / "commands.py").write_text("# no kernel depends on it\n")
    assert place() == first
    for name in ("kernel.py", "called.py", "constants.py"):
        path = package / name
        stamp = path.stat().st_mtime_ns
        path.write_text(files[name].replace("1", "2").replace("one", "two"))
        os.utime(path, ns=(stamp, stamp))  # numba itself looks at time and size only
        assert place() != first, name
        path.write_text(files[name])
        assert place() == first
    (package / "kernel.py").rename(package / "other.py")
    assert place() != first


def test_this_run_has_its_own_cache():
    assert os.environ["NUMBA_CACHE_DIR"] == ask(sys.executable, "conftest.py")
    assert numba.config.CACHE_DIR == os.environ["NUMBA_CACHE_DIR"]


@pytest.fixture(scope="module")
def oldest():
    pytest.importorskip("pip")
    spec = spec_from_file_location("oldest", ROOT / ".ci" / "oldest.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.oldest


def test_oldest_versions(oldest):
    project = {
        "name": "x",
        "dependencies": [
            "numpy>=1.5,<3; python_version < '3'",
            "numpy>=2.0.1,!=2.0.2; python_version >= '3'",
        ],
        "optional-dependencies": {
            "cli": ["typer>=0.16"],
            "docs": ["mkdocs"],
            "dev": ["x[cli]", "ruff>=1", "pytest>=8"],
        },
    }
    assert oldest(project) == ["numpy==2.0.1", "pytest==8", "typer==0.16"]
    for wrong in (["scipy"], ["scipy>=1", "scipy>=2"]):
        with pytest.raises(SystemExit, match="scipy"):
            oldest({"name": "x", "dependencies": wrong, "optional-dependencies": {}})


def test_every_requirement_has_a_floor(oldest):
    names = [line.split("==")[0] for line in ask(sys.executable, ".ci/oldest.py").splitlines()]
    assert {"numpy", "scipy", "scikit-learn", "numba", "joblib"} <= set(names)
    assert {"typer", "rich", "pandas", "pyarrow", "matplotlib", "pytest"} <= set(names)


def test_the_version_needs_no_extra():
    code = """
import sys
for name in ("typer", "click", "rich", "pandas", "matplotlib"):
    sys.modules[name] = None
from bayescut.cli import main
raise SystemExit(main(["--version"]))
"""
    paths = os.pathsep.join(entry for entry in sys.path if entry)
    assert ask(sys.executable, "-c", code, PYTHONPATH=paths) == f"bayescut {bayescut.__version__}"


def test_research_tables_stay_out_of_the_package():
    data = [path for path in (ROOT / "src").rglob("*") if path.is_file() and path.suffix != ".py"]
    names = {path.relative_to(ROOT / "src" / "bayescut").as_posix() for path in data}
    assert {n for n in names if "__pycache__" not in n} == {"py.typed", "datasets/manifest.csv"}
    for path in (ROOT / "src").rglob("*.py"):
        assert "shared/data" not in path.read_text(encoding="utf-8"), path


def test_modules_that_documentation_names_need_no_import_of_their_own() -> None:
    code = (
        "import bayescut as bc; bc.data.describe_table, bc.exceptions.DataError, bc.report.Report"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
