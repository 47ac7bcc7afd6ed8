"""What holds a start back on memory that the host shares (report 26)."""

from __future__ import annotations

import pytest

from sglang_dspine.preflight.gpu import Memory
from sglang_dspine.serve.failure import ServeError
from sglang_dspine.serve.guard import watch_memory
from sglang_dspine.serve.jobs import compile_jobs

pytestmark = pytest.mark.report(26)


def memory(free: int, unified: bool = True, total: int = 128 * 10**9) -> Memory:
    return Memory(total, free, unified, "")


def test_a_start_that_takes_the_last_memory_is_ended_and_says_why():
    watch_memory(memory(0), lambda: memory(3 * 10**9))()
    with pytest.raises(ServeError, match=r"only 1\.0 GB .* MAX_JOBS=1"):
        watch_memory(memory(0), lambda: memory(10**9))()


def test_a_card_with_memory_of_its_own_is_not_watched():
    watch_memory(memory(0, unified=False), lambda: memory(0))()


@pytest.mark.parametrize(("cores", "most"), [(1, 1), (2, 2), (20, 4), (192, 4)])
def test_a_gb10_never_compiles_more_than_four_kernels_at_once(cores, most):
    assert compile_jobs(memory(0), cores) == most


def test_a_small_shared_memory_compiles_one_at_a_time_and_a_big_host_sixteen():
    assert compile_jobs(memory(0, total=16 * 10**9), 20) == 1
    assert compile_jobs(memory(0, unified=False), 192) == 16


def test_the_number_does_not_depend_on_what_is_free():
    assert compile_jobs(memory(10**9), 20) == compile_jobs(memory(10**11), 20)
