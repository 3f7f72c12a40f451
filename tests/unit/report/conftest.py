"""Runs to report on. `made_runs.py` is loaded by path: test folders are no packages."""

import importlib.util
import sys
from pathlib import Path

import pytest


def load_made_runs():
    name = "mst_report_made_runs"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("made_runs.py"))
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


@pytest.fixture(scope="session")
def made_runs():
    """The builder: `build_run(folder, Shape(...))`, `HOSTILE`, `index_of(page)`."""
    return load_made_runs()


@pytest.fixture(scope="session")
def four(made_runs, tmp_path_factory):
    """Four variants, one trial each, with trouble of every kind."""
    return made_runs.build_run(tmp_path_factory.mktemp("four"))


@pytest.fixture(scope="session")
def repeated(made_runs, tmp_path_factory):
    """Two variants, three trials, no trouble."""
    shape = made_runs.Shape(variants=["autoflake", "ruff"], trials=3, trouble=False)
    return made_runs.build_run(tmp_path_factory.mktemp("repeated"), shape)


@pytest.fixture(scope="session")
def alone(made_runs, tmp_path_factory):
    """One variant, no judge, nothing to compare."""
    shape = made_runs.Shape(variants=["autoflake"], pairwise=False, judge=False, trouble=False)
    return made_runs.build_run(tmp_path_factory.mktemp("alone"), shape)
