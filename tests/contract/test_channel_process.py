"""The channel contract on child processes."""

import os

import pytest

from mst.shards.process_channel import ProcessChannel
from mst.testing.channel import ChannelContract, write_worker


class TestProcessChannel(ChannelContract):
    @pytest.fixture
    def make_channel(self, tmp_path):
        return lambda script: ProcessChannel(tmp_path / "there", environment=write_worker(tmp_path, script))

    def test_the_worker_gets_nothing_of_our_environment_that_could_be_a_secret(self, start, monkeypatch):
        monkeypatch.setenv("JUDGE_API_KEY", "not for workers")
        _, process = start("print(json.dumps(dict(os.environ)))")
        [line] = process.lines()
        assert b"not for workers" not in line
        assert os.environ["PATH"].encode() in line

    def test_what_lies_in_the_working_folder_is_not_taken_for_the_library(self, tmp_path, bundle, results, monkeypatch):
        (tmp_path / "json.py").write_text("raise SystemExit('this is not json')")
        (tmp_path / "mst.py").write_text("raise SystemExit('this is not mst')")
        monkeypatch.chdir(tmp_path)
        channel = ProcessChannel(tmp_path / "there")
        process = channel.start(["grade-shard", "--digest", "d"], bundle=bundle, results=results)
        lines = list(process.lines())
        process.kill()
        assert b'"hello"' in lines[0]
        assert "this is not" not in process.stderr_tail()

    def test_what_a_worker_that_was_killed_left_goes_however_deep_it_is(self, tmp_path, bundle, results):
        nest = "os.chdir(results)\nfor _ in range(1500): os.mkdir('d'); os.chdir('d')"
        channel = ProcessChannel(tmp_path / "there", environment=write_worker(tmp_path, f"import os\n{nest}"))
        process = channel.start(["grade-shard", "--digest", "d"], bundle=bundle, results=results)
        assert list(process.lines()) == []
        process.kill()
        channel.close()
        assert not (tmp_path / "there").exists()
