"""Reports: one self-contained HTML page each, with tables that sort and charts that answer."""

from dspnmf.report.case import fit_yardstick
from dspnmf.report.facts import fit_facts
from dspnmf.report.fit import fit_report, write_fit_report
from dspnmf.report.reproduction import write_reproduction
from dspnmf.report.selection import selection_report, write_selection_report

__all__ = [
    "fit_facts",
    "fit_report",
    "fit_yardstick",
    "selection_report",
    "write_fit_report",
    "write_reproduction",
    "write_selection_report",
]
