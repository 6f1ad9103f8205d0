"""From a file of data to codes, a model and a report: what the command line does, step by step, without its talk."""

from dspnmf.workflow.fitting import FitResult, fit_table, methods, model_of
from dspnmf.workflow.folder import OutputFolder
from dspnmf.workflow.results import code_names, index_name, read_fit, write_fit, write_selection
from dspnmf.workflow.scaling import SCALES, scaled
from dspnmf.workflow.tables import matched

__all__ = [
    "SCALES",
    "FitResult",
    "OutputFolder",
    "code_names",
    "fit_table",
    "index_name",
    "matched",
    "methods",
    "model_of",
    "read_fit",
    "scaled",
    "write_fit",
    "write_selection",
]
