from mst.model.base import FileRef
from mst.report.differences import differences


def test_only_settings_that_differ_are_listed(four):
    found = differences(four.run)
    rows = {row.setting: row.values for row in found.rows}
    assert rows["client_options.argv"][0] == "autoflake --in-place mod.py"
    assert rows["env (names)"] == ["", "", "LEVEL", ""]
    assert "client" not in rows
    assert found.same > 0


def test_environment_values_are_not_shown(four):
    variants = [
        variant.model_copy(update={"env": {"PLACE": f"private-{number}"}})
        for number, variant in enumerate(four.run.plan.variants)
    ]
    run = four.run.model_copy(update={"plan": four.run.plan.model_copy(update={"variants": variants})})
    assert "private" not in str(differences(run))


def test_servers_and_files_are_compared_by_content(four):
    first, *rest = four.run.plan.variants
    changed = first.model_copy(
        update={
            "servers": {"git": {"command": "server==1"}},
            "files": [FileRef(path="prompt.md", sha256="f" * 64, size=10)],
        }
    )
    run = four.run.model_copy(update={"plan": four.run.plan.model_copy(update={"variants": [changed, *rest]})})
    rows = {row.setting: row.values for row in differences(run).rows}
    assert rows["servers.git.command"] == ["server==1", "", "", ""]
    assert rows["files.prompt.md"][0] == "sha256 ffffffffffff, 10 bytes"


def test_one_variant_differs_from_nothing(alone):
    assert differences(alone.run).rows == []
