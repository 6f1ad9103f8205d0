"""Fits of AnnData objects: the right matrix, the right places, in memory and on disk."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import adjusted_rand_score

from dspnmf import DSPNMF, NMF, SymNMF
from dspnmf.anndata import fit, top_genes
from dspnmf.report import report

anndata = pytest.importorskip("anndata", reason="single cells need anndata (the extra `anndata`)")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # anndata's own, about its next version

GROUPS = 3


def cells(n: int = 90, m: int = 40, seed: int = 0) -> Any:
    """Counts of cells of three kinds, each with ten genes of its own; cells differ in depth by a factor of ten."""
    rng = np.random.default_rng(seed)
    kind = np.arange(n) % GROUPS
    rates = np.ones((GROUPS, m))
    for a in range(GROUPS):
        rates[a, 10 * a : 10 * a + 10] = 20
    depth = rng.uniform(0.2, 2, size=(n, 1))
    counts = rng.poisson(rates[kind] * depth).astype(np.float32)
    found = anndata.AnnData(sparse.csr_matrix(counts))
    found.var_names = [f"gene{j}" for j in range(m)]
    found.obs["kind"] = kind.astype(str)
    found.layers["counts"] = found.X.copy()
    return found


def test_results_are_where_tools_look() -> None:
    """Codes, components and what was done are written, and the object can be saved and read again."""
    adata = cells()
    model = fit(adata, DSPNMF(3, random_state=0))
    np.testing.assert_array_equal(adata.varm["dspnmf"], model.components_.T)
    np.testing.assert_allclose(adata.obsm["X_dspnmf"], DSPNMF(3, random_state=0).fit_transform(adata.X))
    assert adata.obsm["X_dspnmf"].dtype == np.float32
    assert adata.uns["dspnmf"]["method"] == "DSPNMF"
    assert adata.uns["dspnmf"]["params"]["n_components"] == 3
    assert 0.9 < adata.uns["dspnmf"]["explained"].sum() < 1


def test_saved_and_read_again(tmp_path: Path) -> None:
    """What is written into the object survives its file."""
    adata = cells()
    fit(adata, DSPNMF(3, random_state=0), normalize_total=True, n_top_genes=12)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    again = anndata.read_h5ad(tmp_path / "cells.h5ad")
    np.testing.assert_array_equal(again.obsm["X_dspnmf"], adata.obsm["X_dspnmf"])
    assert again.uns["dspnmf"]["params"]["n_top_genes"] == 12
    assert list(again.uns["dspnmf"]["genes"]) == list(adata.uns["dspnmf"]["genes"])


@pytest.mark.parametrize("form", ["csr", "csc", "dense"])
@pytest.mark.parametrize("options", [{}, {"n_top_genes": 12, "normalize_total": True}], ids=["all", "selected"])
def test_on_disk_as_in_memory(form: str, options: dict[str, Any], tmp_path: Path) -> None:
    """A backed object gives the codes of the same object in memory."""
    adata = cells()
    adata.X = {"csr": adata.X, "csc": adata.X.tocsc(), "dense": adata.X.toarray()}[form]
    adata.write_h5ad(tmp_path / "cells.h5ad")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    for one in (adata, backed):
        fit(one, NMF(3, random_state=0), **options)
    np.testing.assert_allclose(backed.obsm["X_dspnmf"], adata.obsm["X_dspnmf"], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(backed.uns["dspnmf"]["genes"], adata.uns["dspnmf"]["genes"])
    backed.file.close()


def test_depth_is_no_difference_when_normalized() -> None:
    """With normalize_total a cell that is sequenced twice as deep has the codes of the first."""
    adata = cells()
    adata.X = sparse.vstack([adata.X[:45], 2 * adata.X[:45]]).tocsr()
    fit(adata, NMF(3, random_state=0, tol=1e-6, max_iter=2000), normalize_total=True)
    Z = adata.obsm["X_dspnmf"]
    np.testing.assert_allclose(Z[:45], Z[45:], rtol=1e-3, atol=1e-3 * Z.max())


def test_variable_genes_are_those_that_differ() -> None:
    """Genes of the kinds are chosen, those that vary by chance alone are not; genes left out weigh 0."""
    adata = cells(m=200)
    fit(adata, NMF(3, random_state=0), n_top_genes=30, normalize_total=True)
    chosen = [int(name.removeprefix("gene")) for name in adata.uns["dspnmf"]["genes"]]
    assert sum(number < 30 for number in chosen) >= 28
    left_out = np.setdiff1d(np.arange(200), chosen)
    assert not adata.varm["dspnmf"][left_out].any()
    adata.var["chosen"] = np.isin(np.arange(200), chosen)
    again = fit(adata, NMF(3, random_state=0), genes="chosen", normalize_total=True, key_added="again")
    np.testing.assert_array_equal(again.components_.T, adata.varm["dspnmf"][chosen])


def test_top_genes_name_the_kinds() -> None:
    """The table has, for every component, the genes of one kind."""
    adata = cells()
    fit(adata, NMF(GROUPS, random_state=0), normalize_total=True)
    table = top_genes(adata, 8)
    assert table.shape == (8, 3)
    groups = [{int(name.removeprefix("gene")) // 10 for name in table[column]} for column in table]
    assert sorted(map(tuple, groups)) == [(0,), (1,), (2,)]


def test_genes_by_their_names() -> None:
    """A list of names is the mask of these genes."""
    adata = cells()
    names = [f"gene{j}" for j in range(0, 40, 2)]
    by_name = fit(adata, NMF(3, random_state=0), genes=names)
    by_mask = fit(adata, NMF(3, random_state=0), genes=np.arange(40) % 2 == 0)
    np.testing.assert_array_equal(by_name.components_, by_mask.components_)


def test_a_report_of_cells(tmp_path: Path) -> None:
    """The page is made from the model and the object: same genes, same scaling, columns of cells as labels."""
    adata = cells()
    model = fit(adata, NMF(3, random_state=0), n_top_genes=12, normalize_total=True, layer="counts")
    with pytest.raises(ValueError, match=r"'kinds' is not a column of adata\.obs, which has kind"):
        report(model, adata, labels="kinds", path=tmp_path / "cells.html")
    page = report(model, adata, labels="kind", baseline=False, path=tmp_path / "cells.html").read_text()
    assert "90 samples \N{MULTIPLICATION SIGN} 12 features" in page
    explained = adata.uns["dspnmf"]["explained"].sum()
    assert f"explains {100 * explained:.0f}\N{NO-BREAK SPACE}% of the data" in page
    assert all(name in page for name in (*adata.uns["dspnmf"]["genes"], "kind"))
    with pytest.raises(ValueError, match=r"This NMF was not fitted on adata: fit it with dspnmf\.anndata\.fit"):
        report(NMF(3, random_state=1).fit(adata.X), adata, path=tmp_path / "cells.html")


def test_nothing_to_fit_is_said() -> None:
    """An object without cells, and counts that are all 0, are refused in words."""
    with pytest.raises(ValueError, match="adata has 0 cells and 40 genes: there is nothing to fit"):
        fit(cells()[:0].copy())
    with pytest.raises(ValueError, match="the totals of cells are all 0, or some are negative"):
        fit(anndata.AnnData(np.zeros((4, 3))), NMF(2), normalize_total=True)


def test_layers_and_views() -> None:
    """A layer is fitted in place of X, and part of the cells alone."""
    adata = cells()
    adata.X = sparse.csr_matrix(adata.shape, dtype=np.float32)
    part = adata[:60].copy()
    fit(part, NMF(3, random_state=0), layer="counts")
    assert part.obsm["X_dspnmf"].shape == (60, 3)
    assert part.obsm["X_dspnmf"].any()


REFUSED = [
    ({"layer": "count"}, ValueError, "no layer 'count': this object has the layers 'counts'"),
    ({"genes": "high"}, ValueError, "adata.var has no column 'high'"),
    ({"genes": np.zeros(40, dtype=bool)}, ValueError, "True or False for each of the 40 genes"),
    ({"n_top_genes": 41}, ValueError, "n_top_genes=41 is not possible: pass a whole number from 1 to 40"),
    ({"n_top_genes": 2.5}, ValueError, "n_top_genes=2.5 is not possible"),
    ({"genes": ["gene1", "gene99"]}, ValueError, "no gene 'gene99': did you mean 'gene"),
    ({"model": 5}, TypeError, "model=5 is not an estimator: pass for example"),
    ({"model": SymNMF(3)}, ValueError, "SymNMF has no components"),
]


@pytest.mark.parametrize(("options", "error", "text"), REFUSED)
def test_what_cannot_be_fitted_is_said(options: dict[str, Any], error: type[Exception], text: str) -> None:
    """Bad arguments are named with what is allowed, before anything is written."""
    adata = cells()
    with pytest.raises(error, match=text):
        fit(adata, **options)
    assert "dspnmf" not in adata.uns


def test_negative_values_name_the_layer() -> None:
    """Centred data are refused with the advice to take the counts, which works."""
    adata = cells()
    adata.X = adata.X.toarray() - 1
    with pytest.raises(ValueError, match=r"adata\.X has negative values .* layer='counts'.*the layers 'counts'"):
        fit(adata)
    fit(adata, NMF(2, random_state=0), layer="counts")


def test_estimators_say_where_to_go() -> None:
    """An AnnData object passed as X is refused with the name of the function that takes it."""
    for method in (DSPNMF().fit_transform, DSPNMF().fit):
        with pytest.raises(TypeError, match=r"use dspnmf\.anndata\.fit\(adata, model\)"):
            method(cells())
    with pytest.raises(TypeError, match="must be an AnnData object"):
        fit(np.eye(3))


@pytest.mark.skipif(find_spec("scanpy") is None, reason="scanpy is not installed (pip install scanpy)")
@pytest.mark.filterwarnings("ignore")  # its own
def test_scanpy_goes_on_from_the_codes() -> None:
    """Scanpy's neighbours, UMAP and clusters run on the codes, and clusters are the kinds."""
    import scanpy

    adata = cells()
    fit(adata, NMF(GROUPS, random_state=0), normalize_total=True)
    scanpy.pp.neighbors(adata, use_rep="X_dspnmf", n_neighbors=10)
    scanpy.tl.umap(adata, random_state=0)
    assert adata.obsm["X_umap"].shape == (90, 2)
    near = adata.obsp["connectivities"].tocoo()
    kinds = adata.obs["kind"].to_numpy()
    assert (kinds[near.row] == kinds[near.col]).mean() > 0.9
    if find_spec("igraph") is not None:  # which scanpy does not install by itself
        scanpy.tl.leiden(adata, resolution=0.2, flavor="igraph", n_iterations=2, directed=False, random_state=0)
        assert adjusted_rand_score(kinds, adata.obs["leiden"]) > 0.9
