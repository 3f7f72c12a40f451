import pytest

from mst.errors import UsageError
from mst.fleet.flower import FlowerSettings, flower_argv, flower_environ


def test_it_is_read_only_and_on_loopback():
    argv = flower_argv(FlowerSettings())
    assert "--read_only=true" in argv
    assert "--address=127.0.0.1" in argv


@pytest.mark.parametrize("address", ["0.0.0.0", "", "10.0.0.1", "::", "flower.example"])
def test_a_password_is_required_where_others_can_reach_it(address):
    with pytest.raises(UsageError, match="MST_FLOWER_BASIC_AUTH"):
        flower_argv(FlowerSettings(address=address))
    assert flower_argv(FlowerSettings(address=address, basic_auth="u:hush"))


def test_the_password_goes_through_the_environment_only():
    settings = FlowerSettings(address="0.0.0.0", basic_auth="u:hush")
    assert not any("hush" in argument for argument in flower_argv(settings))
    assert "hush" not in repr(settings)
    assert flower_environ(settings) == {"FLOWER_BASIC_AUTH": "u:hush"}


@pytest.mark.parametrize("value", ["user", "user:", ":password"])
def test_half_a_password_is_refused(value):
    with pytest.raises(UsageError, match="USER:PASSWORD"):
        flower_argv(FlowerSettings(basic_auth=value))
