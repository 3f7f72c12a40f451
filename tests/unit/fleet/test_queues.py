import pytest

from mst.errors import UsageError
from mst.fleet.queues import digest_of, queue_name, served_queues


def test_names_hold_what_must_match():
    assert queue_name("grade", mst_version="0.1.0") == "mst.grade.0.1.0"
    named = queue_name("collect", mst_version="0.1.0", worker_class="gpu", image=f"sha256:{'ab' * 32}")
    assert named == "mst.collect.gpu.0.1.0.abababababab"


@pytest.mark.parametrize(
    "options", [{"worker_class": "GPU"}, {"worker_class": "a.b"}, {"image": "latest"}, {"mst_version": "1 2"}]
)
def test_other_forms_are_refused(options):
    with pytest.raises(UsageError):
        queue_name("grade", **{"mst_version": "0.1.0", **options})


def test_a_worker_that_knows_its_image_serves_what_demands_it_too():
    image = f"registry.example/team/mst@sha256:{'cd' * 32}"
    assert digest_of(image) == digest_of("cd" * 32) == f"sha256:{'cd' * 32}"
    served = served_queues(["grade"], mst_version="0.1.0", worker_class="gpu", image=image)
    assert served == ["mst.grade.gpu.0.1.0", "mst.grade.gpu.0.1.0.cdcdcdcdcdcd"]
    assert served_queues(["collect", "grade"], mst_version="0.1.0") == ["mst.collect.0.1.0", "mst.grade.0.1.0"]
