"""Counting programs by how they end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cuplug.tools.benchmarks import public_programs

PROGRAMS = {
    "ends.py": "import pycuda.autoinit\nopen('left over', 'w').close()\nprint(pycuda.autoinit.device.name())\n",
    "raises.py": "import pycuda.autoinit\nraise ValueError('wrong')\n",
    "needs.py": "import pycuda.autoinit\nimport surely_not_installed\nprint(1)\n",
    "reads.py": "import pycuda.autoinit\nopen('not there')\n",
    "old.py": "import pycuda.autoinit\nprint 'two'\n",
    "stays.py": "import pycuda.autoinit\nimport threading\nthreading.Event().wait()\n",
    "library.py": '"""Only functions."""\nimport pycuda.driver\ndef f(): pass\n',
    "other.py": "print('no PyCUDA here')\n",
}


@pytest.mark.needs_sim
def test_programs_are_counted_by_how_they_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in PROGRAMS.items():
        (tmp_path / name).write_text(text)
    assert [path.name for path in public_programs.programs_in(tmp_path)] == sorted(
        {*PROGRAMS} - {"library.py", "other.py"}
    )
    run = public_programs._run
    monkeypatch.setattr(
        public_programs, "_run", lambda program, limit_s: run(program, 1.0 if program.name == "stays.py" else limit_s)
    )
    report = tmp_path / "report.json"
    assert public_programs.main([str(tmp_path), "--json", str(report)]) == 0
    outcomes = {Path(path).name: outcome for path, (outcome, _) in json.loads(report.read_text()).items()}
    assert outcomes == {
        "ends.py": "ended",
        "raises.py": "error",
        "needs.py": "module",
        "reads.py": "input",
        "old.py": "python 2",
        "stays.py": "too long",
    }
    assert "of 3 that have what they need 1 end (33.3 %)" in capsys.readouterr().out
    assert not (tmp_path / "left over").exists()
