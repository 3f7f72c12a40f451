from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mst.clients.mcp_servers import StdioServer, UrlServer
from mst.config.resolve import load_eval
from mst.config.setups import ServerWritten
from mst.errors import ConfigError
from mst.model.run import Selection

EXAMPLES = Path(__file__).parents[3] / "examples"

COMMAND = """
name: tools
datasets: [cases.yaml]
client: command
client_options: {{input: none}}
variants:
  - {{name: old, client_options: {{argv: [old-tool, x]}}}}
  - {{name: new, client_options: {{argv: [new-tool, x]}}}}
{more}
"""


def command(more: str = "") -> str:
    return COMMAND.format(more=more)


def test_a_small_eval_resolves_with_defaults(eval_):
    resolved = eval_.load()
    assert resolved.plan.name == "small"
    assert [variant.name for variant in resolved.plan.variants] == ["default"]
    assert resolved.plan.baseline == "default"
    assert resolved.cases.ids == ["one", "two"]
    assert [(record.name, record.case_count, record.ref) for record in resolved.datasets] == [
        ("cases", 2, "cases.yaml")
    ]
    assert resolved.selection is None
    assert resolved.plan.config == {"name": "small", "datasets": ["cases.yaml"], "client": "echo"}


@pytest.mark.parametrize("name", ["hello", "python-fixers", "mcp-git", "shop-assistant"])
def test_the_examples_resolve_without_a_warning(name):
    with load_eval(EXAMPLES / name / "eval.yaml") as resolved:
        assert len(resolved.cases) >= 3
        assert resolved.warnings == []
        assert resolved.differences


def test_variants_are_patches_over_the_config(eval_):
    resolved = eval_.load(
        """
        name: v
        datasets: [cases.yaml]
        client: command
        client_options: {argv: [a, b], env: {A: "1", B: {secret: OLD}}}
        trial_limits: {time_s: 5, turns: 3}
        variants:
          - {name: base}
          - name: other
            client_options: {argv: [c], env: {B: {secret: NEW}}}
            trial_limits: {turns: 4}
        """
    )
    base, other = resolved.plan.variants
    assert base.client_options == {"argv": ["a", "b"], "env": {"A": "1", "B": {"secret": "OLD"}}}
    assert other.client_options == {"argv": ["c"], "env": {"A": "1", "B": {"secret": "NEW"}}}
    assert (other.trial_limits.time_s, other.trial_limits.turns) == (5, 4)
    assert [found.field for found in resolved.differences] == [
        "client_options.argv",
        "client_options.env.B",
        "trial_limits.turns",
    ]


def test_a_variants_judges_replace_those_of_the_config(eval_):
    eval_.write("judge.py", "def j(*a): ...")
    resolved = eval_.load(
        command("judges: [{name: style, python: './judge.py:j'}]").replace(
            "argv: [new-tool, x]}", "argv: [new-tool, x]}, judges: []"
        )
    )
    assert [[judge.name for judge in variant.judges] for variant in resolved.plan.variants] == [["style"], []]


def test_vary_refuses_other_differences_and_names_the_field(eval_):
    faults = eval_.faults(command("vary: [model]"))
    assert len(faults) == 1
    assert faults[0].startswith("eval.yaml:8: vary: variants differ in 'client_options.argv' (old, new)")
    assert eval_.load(command("vary: [client_options]")).plan.baseline == "old"
    assert eval_.load(command("vary: [client_options.argv]")).plan.baseline == "old"


def test_vary_must_name_keys_that_variants_can_set(eval_):
    faults = eval_.faults(command("vary: [client_options, trails]"))
    assert "'trails' is not a key that variants can set" in faults[0]


def test_camel_case_keys_are_read_but_user_data_is_left_alone(eval_):
    resolved = eval_.load(
        """
        name: camel
        datasets: [cases.yaml]
        client: command
        clientOptions: {argv: [x], okExitCodes: [0, 1], env: {someName: v}}
        inputTemplate: "{{input}}!"
        passThreshold: 0.5
        trialLimits: {timeS: 3}
        """,
        cases="""
        - {id: a, expected: {someKey: {innerKey: 1}}, metadata: {camelKey: 1}, input: {camelIn: 1}, passThreshold: 0.25}
        """,
    )
    variant, case = resolved.plan.variants[0], resolved.cases.get("a")
    assert variant.client_options == {"argv": ["x"], "ok_exit_codes": [0, 1], "env": {"someName": "v"}}
    assert (variant.input_template, resolved.plan.pass_threshold) == ("{{input}}!", 0.5)
    assert case.expected == {"someKey": {"innerKey": 1}}
    assert case.input == {"camelIn": 1}
    assert (case.metadata, case.pass_threshold) == ({"camelKey": 1}, 0.25)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            "name: x\ndatasets: [cases.yaml]\nclient: echo\nasertions: []\n",
            "eval.yaml:4: unknown key 'asertions' (did you mean 'assertions'?)",
        ),
        (
            "name: x\ndatasets: [cases.yaml]\nclient: echo\ninput_template: a\ninputTemplate: b\n",
            "eval.yaml:5: 'input_template' is given twice, in two spellings",
        ),
        (
            "name: x\ndatasets: [cases.yaml]\nclient: echo\ntrials: '3'\n",
            "eval.yaml:4: trials: should be a whole number, not a text",
        ),
        ("name: x\ndatasets: [cases.yaml]\nclient: echo\ntrials: 0\n", "eval.yaml:4: trials: should be greater than 0"),
        ("datasets: [cases.yaml]\nclient: echo\n", "name: missing"),
        ("name: x\nclient: echo\n", "datasets: missing"),
        ("name: x\ndatasets: []\nclient: echo\n", "eval.yaml:2: datasets: should be a list with at least one dataset"),
        ("name: x\ndatasets: [cases.yaml]\n", "no client is given; add 'client: NAME'"),
        ("name: x\ndatasets: [cases.yaml]\nclient: ecko\n", "eval.yaml:3: client: unknown client 'ecko' (did you mean"),
        ("name: x\ndatasets: [cases.yaml]\nclient: smaller_diff\n", "'smaller_diff' is a pairwise judge, not a client"),
        (
            "name: x\ndatasets: [cases.yaml]\nclient: echo\nclient_options: {argv: [a]}\n",
            "eval.yaml:4: unknown key 'argv'",
        ),
        (
            "name: x\ndatasets: [cases.yaml]\nclient: echo\nvariants: [{name: a}, {name: A}]\n",
            "eval.yaml:4: variants[1].name: two variants are called 'A'",
        ),
        (
            "name: x\ndatasets: [cases.yaml]\nclient: echo\nvariants: [{name: a}]\nbaseline: b\n",
            "eval.yaml:5: baseline: no variant is called 'b'",
        ),
        ("name: x\ndatasets: [nothing.yaml]\nclient: echo\n", "eval.yaml:2: datasets[0]: no such file: "),
        ("name: x\ndatasets: [{dirr: cases}]\nclient: echo\n", "unknown dataset 'dirr' (did you mean 'dir'?)"),
        ("name: x\ndatasets: [cases.yaml, ./cases.yaml]\nclient: echo\n", "two datasets are called 'cases'"),
        ("name: x\ndatasets: [cases.yaml]\nclient: echo\nfiles: overlay\n", "no folder 'overlay' beside eval.yaml"),
        ("name: x\ndatasets: [cases.yaml]\nclient: echo\nfiles: ../x\n", "must be relative and stay inside the folder"),
        ("name: x\ndatasets: [cases.yaml]\nclient: echo\nsecrets: ['a b']\n", "eval.yaml:4: secrets[0]"),
        ("name: x\ndatasets: [cases.yaml]\nclient: echo\nplugins: [acme]\n", "plugin 'acme' is not installed"),
        (
            "name: x\ndatasets: [cases.yaml]\nclient: echo\nservers: {a: {command: x, url: 'http://h'}}\n",
            "eval.yaml:4: servers.a: a server has either 'command' or 'url'",
        ),
        ("name: x\ndatasets: [cases.yaml]\nclient: echo\nservers: {a: {comand: x}}\n", "unknown key 'comand' (did you"),
        ("- a\n", "eval.yaml: a config should be a mapping"),
    ],
)
def test_a_wrong_config_gets_one_clear_line(eval_, config, expected):
    faults = eval_.faults(config)
    assert any(fault.startswith(expected) or expected in fault for fault in faults), faults
    assert len(faults) == 1, faults


def test_all_faults_of_a_config_are_reported_at_once(eval_):
    faults = eval_.faults(
        """
        name: x
        datasets: [cases.yaml]
        client: echo
        trails: 3
        concurrency: 0
        variants: [{name: a, nmae: b}]
        """
    )
    assert [fault.split(": ")[0] for fault in faults] == ["eval.yaml:4", "eval.yaml:5", "eval.yaml:6"]


def test_grader_faults_of_the_config_and_of_cases_have_their_places(eval_):
    faults = eval_.faults(
        "name: x\ndatasets: [cases.yaml]\nclient: echo\njudges:\n  - no_such_judge: {}\n"
        "assertions:\n  - matches_pattern: '(a'\n"
    )
    assert faults[0].startswith("eval.yaml:5: judges[0].no_such_judge: unknown judge 'no_such_judge'")
    assert faults[1].startswith("eval.yaml:7: assertions[0].matches_pattern")
    faults = eval_.faults(cases="- id: a\n  assertions:\n    - matches_pattern: '[z'\n- id: b\n  asertions: []\n")
    assert [fault.split(": ")[0] for fault in faults] == ["cases.yaml:3", "cases.yaml:5"]


def test_case_ids_are_unique_ignoring_case_over_all_datasets(eval_):
    eval_.write("more.yaml", "- {id: x}\n- {id: ONE}\n")
    faults = eval_.faults("name: x\ndatasets: [cases.yaml, more.yaml]\nclient: echo\n")
    assert faults == ["more.yaml:2: case ID 'ONE' is given twice (IDs are compared ignoring case)"]


def test_extends_replaces_top_level_keys_and_never_merges(eval_):
    eval_.write("shared/judge.py", "def j(*a): ...")
    eval_.write(
        "shared/base.yaml",
        """
        client: command
        client_options: {argv: [a], cwd: sub}
        trials: 3
        judges: [{name: style, python: './judge.py:j'}]
        """,
    )
    resolved = eval_.load("name: x\ndatasets: [cases.yaml]\nextends: shared/base.yaml\nclient_options: {argv: [b]}\n")
    variant = resolved.plan.variants[0]
    assert variant.client_options == {"argv": ["b"]}
    assert resolved.plan.trials == 3
    assert [file.path for file in variant.judges[0].files] == ["judge.py"]
    assert "extends" not in resolved.plan.config
    assert resolved.plan.config["trials"] == 3


def test_a_shared_config_cannot_say_what_is_evaluated(eval_):
    eval_.write("base.yaml", "client: echo\nbaseline: x\n")
    faults = eval_.faults("name: x\ndatasets: [cases.yaml]\nextends: [base.yaml, gone.yaml]\n")
    assert "a shared config cannot set 'baseline'" in faults[0]
    assert "gone.yaml: no such file" in faults[1]
    assert all(fault.startswith("eval.yaml:3: extends: ") for fault in faults)


def test_a_fault_of_options_that_all_variants_inherit_is_said_once_where_it_stands(eval_):
    config = """
        name: x
        datasets: [cases.yaml]
        client: command
        client_options:
          inputs: stdin
        variants:
          - {name: a, client_options: {argv: [ls]}}
          - {name: b, client_options: {argv: [ls], inputz: arg}}
        """
    faults = eval_.faults(config)
    assert [fault.split(" (did")[0] for fault in faults] == [
        "eval.yaml:5: unknown key 'inputs'",
        "eval.yaml:8: unknown key 'inputz'",
    ]


def test_faults_in_a_shared_config_have_its_place(eval_):
    eval_.write("base.yaml", "client: command\n\nclient_options:\n  argvv: [x]\n")
    faults = eval_.faults("name: x\ndatasets: [cases.yaml]\nextends: base.yaml\n")
    assert faults[0].startswith("base.yaml:4: unknown key 'argvv' (did you mean 'argv'?)")


def test_files_that_programs_need_are_taken_by_content(eval_):
    eval_.write("tool.py", "print(1)")
    eval_.write("lib/part.py", "x = 1")
    resolved = eval_.load(
        "name: x\ndatasets: [cases.yaml]\nclient: command\n"
        "client_options: {argv: ['{{python}}', tool.py], files: [tool.py, lib]}\n"
    )
    refs = resolved.plan.variants[0].client_options["files"]
    assert [ref["path"] for ref in refs] == ["tool.py", "lib/part.py"]
    assert [ref.path for ref in resolved.plan.files] == ["lib/part.py", "tool.py"]
    assert resolved.files.locate(refs[0]["sha256"]).read_text() == "print(1)"


def test_an_argument_that_exists_beside_the_config_must_be_listed(eval_):
    eval_.write("judge.py", "")
    faults = eval_.faults(
        "name: x\ndatasets: [cases.yaml]\nclient: command\nclient_options: {argv: [python, judge.py]}\n"
        "judges:\n  - {name: j, command: {argv: [python, judge.py]}}\n"
    )
    assert [fault.split(": ")[0] for fault in faults] == ["eval.yaml:4", "eval.yaml:6"]
    assert "'judge.py' exists beside eval.yaml but is not listed; add it to 'files'" in faults[0]


def test_the_content_hash_follows_the_config_and_its_files_and_no_place(eval_, tmp_path):
    config = "name: x\ndatasets: [cases.yaml]\nclient: command\nclient_options: {argv: [t.py], files: [t.py]}\n"
    eval_.write("t.py", "1")
    first = eval_.load(config).plan
    shutil.copytree(tmp_path, tmp_path.parent / f"{tmp_path.name}-moved")
    with load_eval(tmp_path.parent / f"{tmp_path.name}-moved" / "eval.yaml") as moved:
        assert moved.plan == first
    eval_.write("t.py", "2")
    assert eval_.load(config).plan.content_hash != first.content_hash
    assert eval_.load(config + "trials: 2\n").plan.config_id == first.config_id


def test_what_the_reference_writes_is_mapped(eval_):
    resolved = eval_.load(
        """
        $schema: https://example.org/schema.json
        name: reference
        datasets: [cases.yaml]
        client: command
        clientOptions: {argv: [x]}
        timeout: 30000
        run: {trials: 3, maxCases: 1, concurrency: 2, filterTags: [even], passThreshold: 0.5}
        limits: {providers: {anthropic: 4}, servers: {git: 2}}
        coworkSetup: {a: 1}
        simulateWrites: true
        requireEvalEndpoint: false
        """
    )
    plan = resolved.plan
    assert plan.variants[0].trial_limits.time_s == 30
    assert (plan.trials, plan.concurrency, plan.pass_threshold) == (3, 2, 0.5)
    assert resolved.cases.ids == ["two"]
    assert plan.rate_limits == {"providers": {"anthropic": {"concurrent": 4}}, "servers": {"git": {"concurrent": 2}}}
    assert [warning.split("'")[1] for warning in resolved.warnings] == [
        "coworkSetup",
        "simulateWrites",
        "requireEvalEndpoint",
    ]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("client: cowork", "client 'cowork' drives a desktop application, which is out of scope"),
        ("client: echo\nservers: {a: {connector: acme/connector/x}}", "eval.yaml:4: server 'a' is a connector"),
        ("client: echo\ntoolMap: {a: b}", "'toolMap' is not supported"),
        ("client: echo\ntrials: 2\nrun: {trials: 3}", "eval.yaml:5: 'run.trials' and 'trials' are both given"),
        ("client: echo\ntimeout: soon", "timeout: should be a positive number of milliseconds"),
        ("client: echo\nrun: {trails: 3}", "unknown key 'run.trails'"),
        ("client: echo\nmaxTokens: 5", "eval.yaml:4: unknown key 'max_tokens'"),
    ],
)
def test_what_the_reference_writes_and_we_do_not_do_is_refused_by_name(eval_, more, expected):
    faults = eval_.faults(f"name: x\ndatasets: [cases.yaml]\n{more}\n")
    assert any(expected in fault for fault in faults), faults


def test_selections_narrow_variants_cases_and_trials(eval_):
    cases = "".join(f"- {{id: c{n}, tags: [{'even' if n % 2 == 0 else 'odd'}], trials: 5}}\n" for n in range(20))
    every = eval_.load(command(), cases=cases)
    assert len(every.cases) == 20
    chosen = eval_.load(
        command(), cases=cases, selection=Selection(variants=["new"], filter_tags=["even"], max_cases=3, trials=2)
    )
    assert [variant.name for variant in chosen.plan.variants] == ["new"]
    assert chosen.plan.baseline == "new"
    assert chosen.cases.ids == ["c0", "c2", "c4"]
    assert chosen.plan.trials_of(chosen.cases.get("c0")) == 2
    assert chosen.selection is not None
    assert chosen.plan.content_hash == every.plan.content_hash
    assert chosen.cases.get("c0").digest == every.cases.get("c0").digest
    sampled = [
        eval_.load(command(), cases=cases, selection=Selection(sample=5, seed=seed)).cases.ids for seed in (1, 1, 2)
    ]
    assert sampled[0] == sampled[1] != sampled[2]
    assert len(sampled[0]) == 5
    assert sampled[0] == [case_id for case_id in every.cases.ids if case_id in sampled[0]]


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(variants=["nwe"]), "no variant 'nwe' (did you mean 'new'?)"),
        (Selection(cases=["oen"]), "no case 'oen' (did you mean 'one'?)"),
        (Selection(filter_tags=["none"]), "no case is left"),
        (Selection(sample=2, max_cases=2), "--sample and --max-cases exclude each other"),
        (Selection(max_cases=0), "--max-cases must be at least 1"),
    ],
)
def test_a_selection_of_nothing_is_refused(eval_, selection, expected):
    assert expected in eval_.faults(command(), selection=selection)[0]


def test_faults_of_cases_behind_the_limit_are_still_found(eval_):
    faults = eval_.faults(command("max_cases: 1"), cases="- {id: a}\n- {id: a}\n- {idd: b}\n")
    assert len(faults) == 2


def test_a_case_with_its_own_client_is_checked_against_every_variant(eval_):
    faults = eval_.faults(command(), cases="- {id: a, client: echo, client_options: {argv: [x]}}\n")
    assert faults[0].startswith("cases.yaml:1: case 'a' with variant 'old': unknown key 'argv'")
    resolved = eval_.load(command(), cases="- {id: a, client: echo}\n- {id: b, client_options: {cwd: sub}}\n")
    assert resolved.cases.get("b").client_options == {"cwd": "sub"}


def test_what_looks_like_a_credential_is_warned_of_without_showing_it(eval_):
    resolved = eval_.load(
        "name: x\ndatasets: [cases.yaml]\nclient: command\nclient_options: {argv: [x], env: {API_KEY: planted-value}}\n"
    )
    assert len(resolved.warnings) == 1
    assert "env.API_KEY looks like a credential" in resolved.warnings[0]
    assert "planted-value" not in resolved.warnings[0]


def test_the_name_of_a_judges_secret_is_not_warned_of(eval_):
    judge = "{name: q, agentic: {runtime: codex, api_key: JUDGE_KEY}}"
    resolved = eval_.load(
        "name: x\ndatasets: [cases.yaml]\nclient: echo\nvariants: [{name: a}, {name: b}]\nbaseline: a\n"
        f"judges: [{judge}]\npairwise_judges: [{judge}]\n"
    )
    assert resolved.warnings == []
    assert [judge.secrets for judge in resolved.plan.pairwise_judges] == [["JUDGE_KEY"]]


def test_faults_never_repeat_values(eval_):
    faults = eval_.faults(
        "name: x\ndatasets: [cases.yaml]\nclient: command\nclient_options: {argv: [x], env: {A: [planted-value]}}\n"
    )
    assert "planted-value" not in "".join(faults)


def test_a_plugins_judge_must_be_listed_and_brings_its_version(eval_, plugin):
    plugin(
        "tone_plugin",
        """
        from mst.model.base import Model

        class ToneOptions(Model):
            tone: str = "kind"

        class Tone:
            Options = ToneOptions
        """,
        "[mst.judges]\nacme/judge/tone = tone_plugin:Tone\n",
    )
    config = "name: x\ndatasets: [cases.yaml]\nclient: echo\njudges: [{name: t, acme/judge/tone: {tone: harsh}}]\n"
    assert "is of a plugin that the config does not list; add it: plugins: [acme]" in eval_.faults(config)[0]
    judge = eval_.load(config + "plugins: [acme]\n").plan.variants[0].judges[0]
    assert (judge.type, judge.plugin_version, judge.options) == ("acme/judge/tone", "1.2.3", {"tone": "harsh"})
    assert judge.identity().plugin == "acme"
    faults = eval_.faults(config.replace("tone: harsh", "tnoe: harsh") + "plugins: [acme]\n")
    assert "unknown key 'tnoe' (did you mean 'tone'?)" in faults[0]


def test_the_temporary_folder_goes_when_the_eval_is_closed(eval_):
    resolved = eval_.load()
    path = resolved.cases.path
    assert path.is_file()
    resolved.close()
    resolved.close()
    assert not path.exists()


def test_whatever_a_client_reads_of_a_server_may_be_written():
    read = {*StdioServer.model_fields, *UrlServer.model_fields}
    assert read == set(ServerWritten.model_fields)


def test_servers_may_be_chosen_by_label_or_patched(eval_):
    resolved = eval_.load(
        """
        name: x
        datasets: [cases.yaml]
        client: echo
        servers:
          git: {command: git-server, args: [-v]}
          web: {url: "https://example.org/mcp", headers: {Authorization: {secret: WEB}}}
        variants:
          - {name: both}
          - {name: one, servers: [git]}
          - {name: patched, servers: {git: {command: new-server}}}
        """
    )
    both, one, patched = resolved.plan.variants
    assert list(both.servers) == ["git", "web"]
    assert list(one.servers) == ["git"]
    assert patched.servers["git"] == {"command": "new-server", "args": ["-v"]}
    faults = eval_.faults(
        "name: x\ndatasets: [cases.yaml]\nclient: echo\nservers: {git: {command: x}}\n"
        "variants: [{name: a, servers: [gti]}]\n"
    )
    assert "no server 'gti' (did you mean 'git'?)" in faults[0]


def test_at_most_fifty_faults_are_listed(eval_):
    with pytest.raises(ConfigError) as caught:
        eval_.load(cases="".join(f"- {{id: c{n}, oops: 1}}\n" for n in range(80)))
    assert len(caught.value.faults) == 51
    assert caught.value.faults[-1] == "and 30 more"


def test_files_listed_in_the_config_count_for_the_arguments_of_a_variant(eval_):
    eval_.write("tool.py", "")
    config = (
        "name: x\ndatasets: [cases.yaml]\nclient: command\nclient_options: {FILES}\nvariants:\n"
        "  - {name: a, client_options: {argv: [tool.py, a]}}\n"
    )
    resolved = eval_.load(config.replace("FILES", "files: [tool.py]"))
    assert [ref.path for ref in resolved.plan.files] == ["tool.py"]
    faults = eval_.faults(config.replace("FILES", "input: none"))
    assert faults[0].startswith("eval.yaml:6: variants[0].client_options.argv[0]: 'tool.py' exists beside")


def test_what_nothing_acts_on_yet_is_said_aloud(eval_):
    resolved = eval_.load(
        "name: x\ndatasets: [cases.yaml]\nclient: echo\nbudget: {cost_usd: 5}\nmetrics: [{name: m}]\nvariants:\n"
        "  - {name: a, trial_limits: {turns: 3, time_s: 5}, tools: {t: x}}\n"
    )
    assert resolved.warnings == [
        (
            f"{eval_.folder}/eval.yaml:5: 'metrics' is recorded, but nothing acts on it yet; "
            "numbers of your own are those that a case's checks return as `metrics`"
        ),
        f"{eval_.folder}/eval.yaml:7: 'tools' is recorded, but nothing acts on it yet",
    ]
    faults = eval_.faults("name: x\ndatasets: [cases.yaml]\nclient: echo\nredactStoredResponses: true\n")
    assert faults[0].startswith("eval.yaml:4: redact_stored_responses: is not available yet")


def test_a_client_that_all_variants_take_from_the_config_is_one_fault(eval_):
    faults = eval_.faults("name: x\ndatasets: [cases.yaml]\nclient: comand\nvariants: [{name: a}, {name: b}]\n")
    assert len(faults) == 1
    assert faults[0].startswith("eval.yaml:3: client: unknown client 'comand' (did you mean 'command'?)")


def test_a_file_that_is_not_there_is_one_fault_also_where_one_is_needed(eval_):
    config = """
    name: small
    datasets: [cases.yaml]
    client: import
    client_options: {files: [gone.jsonl]}
    """
    fault = "eval.yaml:4: client_options.files[0]: no file 'gone.jsonl' beside eval.yaml"
    assert eval_.faults(config) == [fault]
    assert eval_.faults(config + "variants: [{name: a}, {name: b}]\n") == [fault]
    empty = eval_.faults(config.replace("[gone.jsonl]", "[]"))
    assert empty == ["eval.yaml:4: client_options.files: should not be empty"]
    text = eval_.faults(config.replace("[gone.jsonl]", "gone.jsonl"))
    assert text == ["eval.yaml:4: client_options.files: should be a list of paths"]
