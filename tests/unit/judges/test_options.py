from __future__ import annotations

import pytest

from mst.errors import ConfigError
from mst.judges.command import CommandJudge
from mst.judges.options import parse_options
from mst.judges.program import ProgramOptions
from mst.judges.python import PythonJudge, PythonOptions
from mst.model.case import GraderSpec


def test_a_bare_value_stands_for_the_main_option():
    assert ProgramOptions.model_validate(["judge"]).argv == ["judge"]
    assert PythonOptions.model_validate("module:function").call == "module:function"


def test_faults_carry_the_graders_name():
    with pytest.raises(ConfigError, match=r"style: argv: .*required"):
        CommandJudge(GraderSpec(type="command", name="style"))
    with pytest.raises(ConfigError, match=r"python: memory_?[bB]ytes"):
        PythonJudge(GraderSpec(type="python", options={"call": "m:f", "memory_bytes": 1}))


@pytest.mark.parametrize("options", [{"argv": []}, {"argv": ["a"], "preflight": {}}, {"argv": ["a"], "extra": 1}])
def test_options_that_cannot_be_meant_are_refused(options):
    with pytest.raises(ConfigError):
        parse_options(GraderSpec(type="command", options=options), ProgramOptions)
