"""The command line: options, messages and progress; results are computed by `dspnmf.workflow` and `dspnmf.paper`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command ``dspnmf`` (see ``dspnmf --help``), or say what it needs."""
    try:
        from dspnmf.cli.app import app
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in ("typer", "rich"):
            raise
        sys.stderr.write(f'dspnmf: the command line needs {missing}: pip install "dspnmf[cli]"\n')
        raise SystemExit(1) from None
    app()
