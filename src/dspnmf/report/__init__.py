"""Reports: one self-contained HTML page each, with tables that sort and charts that answer."""

from dspnmf.report.reproduction import write_reproduction

__all__ = ["write_reproduction"]
