"""Benchmarks that make runs of their own: what they write is what robin reads."""

import sys

import pytest

from benchmarks import readers


def test_a_made_run_of_two_segments_can_be_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["readers", "--pairs", "20000", "--only", "status"])
    readers.main()
    assert "20,000  status" in capsys.readouterr().out
