"""From a file of data to codes, a model and a report: the steps of the command line, without its messages."""

from dspnmf._atomic_folders import output_folder
from dspnmf.workflow.fitting import FitResult, fit_table, methods, model_of, select_table
from dspnmf.workflow.preparation import matched
from dspnmf.workflow.result_files import read_fit, write_fit, write_selection, write_table_codes

__all__ = [
    "FitResult",
    "fit_table",
    "matched",
    "methods",
    "model_of",
    "output_folder",
    "read_fit",
    "select_table",
    "write_fit",
    "write_selection",
    "write_table_codes",
]
