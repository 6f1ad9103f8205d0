"""From a file of data to codes, a model and a report: the steps of the command line, without its messages."""

from dspnmf.workflow.fitting import FitResult, fit_table, methods, model_of, select_table
from dspnmf.workflow.output_folder import OutputFolder
from dspnmf.workflow.preparation import SCALES, matched, scaled
from dspnmf.workflow.result_files import code_names, read_fit, write_fit, write_selection, write_table_codes

__all__ = [
    "SCALES",
    "FitResult",
    "OutputFolder",
    "code_names",
    "fit_table",
    "matched",
    "methods",
    "model_of",
    "read_fit",
    "scaled",
    "select_table",
    "write_fit",
    "write_selection",
    "write_table_codes",
]
