"""What is read about the machine."""

import time

from sglang_dspine.bench.serving.watch import Machine, host_free_gib, parse_state, watching


def test_lows_and_highs_are_kept():
    machine = Machine()
    machine.see(10.0, (2048.0, 1980.0, 40.0, 300.0))
    machine.see(8.0, (1024.0, 1500.0, 55.0, 200.0))
    assert (machine.host_free_low_gib, machine.gpu_free_low_gib) == (8.0, 1.0)
    assert (machine.clock_low_mhz, machine.clock_high_mhz, machine.temperature_high_c) == (1500.0, 1980.0, 55.0)


def test_what_the_driver_does_not_know_stays_empty():
    assert parse_state("[N/A], 2405, 41, [N/A]") == (None, 2405.0, 41.0, None)
    machine = Machine()
    machine.see(None, parse_state("[N/A], 2405, 41, [N/A]"))
    assert machine.gpu_free_low_gib is None and machine.clock_low_mhz == 2405.0


def test_memory_that_can_be_had_is_read_in_gib(tmp_path):
    path = tmp_path / "meminfo"
    path.write_text("MemTotal:       24000000 kB\nMemAvailable:   2097152 kB\n")
    assert host_free_gib(path) == 2.0 and host_free_gib(tmp_path / "none") is None


def test_a_watch_samples_while_it_is_open():
    with watching(0.01) as machine:
        time.sleep(0.1)
    seen = machine.samples
    time.sleep(0.05)
    assert 3 <= seen == machine.samples
