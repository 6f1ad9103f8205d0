"""From a file of data to codes, a model and a report: the steps of the command line, without its messages."""

from dspnmf._atomic_folders import output_folder
from dspnmf.workflow.description import assumptions, described, fit_command, scaling
from dspnmf.workflow.fitting import FitResult, fit_table, methods, model_of, select_table
from dspnmf.workflow.preparation import mask_missing, matched, read_matched, without_names
from dspnmf.workflow.result_files import read_fit, write_fit, write_selection, write_table_codes

__all__ = [
    "FitResult",
    "assumptions",
    "described",
    "fit_command",
    "fit_table",
    "mask_missing",
    "matched",
    "methods",
    "model_of",
    "output_folder",
    "read_fit",
    "read_matched",
    "scaling",
    "select_table",
    "without_names",
    "write_fit",
    "write_selection",
    "write_table_codes",
]
