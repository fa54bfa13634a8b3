"""What training sends, as the network counts it: the counters of hosts' ports against the closed forms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sim.hosts import Hosts
from tests.sim.test_hosts import real

RANK = str(Path(__file__).with_name("interface_rank.py"))
STRATEGIES = ("ddp", "ddp-bf16", "zero-1", "zero-2", "zero-3", "zero-3-kept")
HOSTS = 3
HEADERS = 0.06  # of 1,514 bytes on a wire 66 are headers, which is 4.6 %; acknowledgements and barriers besides


@real
@pytest.mark.timeout(300)
def test_a_port_counts_what_the_closed_form_says(tmp_path: Path) -> None:
    """A host a rank, so that all a rank sends leaves by its port: never less than the formula, and headers more."""
    with Hosts(HOSTS) as hosts:
        assert hosts.torchrun([RANK, str(tmp_path), *STRATEGIES], timeout=280) == 0
    for rank in range(HOSTS):
        found = json.loads((tmp_path / f"{rank}.json").read_text())
        assert found["host"] == f"host{rank}"
        assert tuple(found["bytes"]) == STRATEGIES
        for strategy, (sent, wanted) in found["bytes"].items():
            assert wanted <= sent <= (1 + HEADERS) * wanted, strategy
