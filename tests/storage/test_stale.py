"""Machine code goes when any source of its package has changed, and stays otherwise."""

from pathlib import Path

from viewlet.storage.stale import drop_stale_code


def test_code_is_kept_as_long_as_all_sources_are(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("A = 1")
    (tmp_path / "two.py").write_text("from one import A")
    assert drop_stale_code(tmp_path)
    code = tmp_path / "__pycache__" / "two.nbi"
    code.write_text("code")
    assert not drop_stale_code(tmp_path)
    assert code.exists()
    (tmp_path / "one.py").write_text("A = 2")
    assert drop_stale_code(tmp_path)
    assert not code.exists()
