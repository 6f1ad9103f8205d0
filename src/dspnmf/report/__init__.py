"""Reports: one self-contained HTML page each, with tables that sort and interactive charts."""

from dspnmf.report.fit_measurements import fit_baseline, fit_facts
from dspnmf.report.fit_page import explained, fit_report, write_fit_report
from dspnmf.report.from_arrays import report
from dspnmf.report.reproduction_page import write_reproduction
from dspnmf.report.selection_page import selection_report, write_selection_report

__all__ = [
    "explained",
    "fit_baseline",
    "fit_facts",
    "fit_report",
    "report",
    "selection_report",
    "write_fit_report",
    "write_reproduction",
    "write_selection_report",
]
