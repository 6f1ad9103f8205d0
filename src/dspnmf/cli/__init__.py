"""The command line: options, messages and progress; results are computed by `dspnmf.workflow` and `dspnmf.paper`."""

from __future__ import annotations

import sys

from dspnmf._interrupts import interrupts_kept


def main() -> None:
    """Run the command ``dspnmf`` (see ``dspnmf --help``), or say what it needs."""
    try:
        with interrupts_kept():
            from dspnmf.cli.app import app

            app()
    except (KeyboardInterrupt, SystemExit) as end:
        cause = getattr(end.__context__, "__cause__", None)  # what Typer made an exit of
        if not isinstance(end, KeyboardInterrupt) and not isinstance(cause, KeyboardInterrupt):
            raise
        sys.stderr.write("dspnmf: interrupted.\n")  # before a command began: commands say more
        raise SystemExit(130) from None
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in ("typer", "rich"):
            raise
        sys.stderr.write(f'dspnmf: the command line needs {missing}: pip install "dspnmf[cli]"\n')
        raise SystemExit(1) from None
