"""``python -m dspnmf``: the command line where the command ``dspnmf`` is not on the path."""

from dspnmf.cli import main

if __name__ == "__main__":
    main()
