"""The paper's data sets: shapes, class counts, sub-sampling, checksums, and downloads from a server of our own."""

from __future__ import annotations

import hashlib
import http.server
import re
import shutil
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from scipy.io import loadmat, savemat

from dspnmf import datasets

FILES = ["COIL20.mat", "Indian_pines_corrected.mat", "Indian_pines_gt.mat", "PaviaU_gt.mat", "PaviaU_subset_140x80.mat"]
PINES = {
    "Corn-notill": 1428,
    "Corn-mintill": 830,
    "Grass-pasture": 483,
    "Grass-trees": 730,
    "Hay-windrowed": 478,
    "Soybean-notill": 972,
    "Soybean-mintill": 2455,
    "Soybean-clean": 593,
    "Woods": 1265,
}
PAVIA_CROP = {
    "Asphalt": 86,
    "Meadows": 461,
    "Trees": 52,
    "Painted metal sheets": 311,
    "Bare soil": 342,
    "Bitumen": 1234,
    "Self-blocking bricks": 249,
    "Shadows": 193,
}


def counts(data: datasets.Dataset) -> dict[str, int]:
    """Rows of every class, by name."""
    return {name: int((data.y == label).sum()) for label, name in enumerate(data.classes)}


def share(sizes: dict[str, int], fraction: float) -> dict[str, int]:
    """The documented rounding: to the nearest, halves up, at least one."""
    return {name: max(1, int(np.floor(fraction * size + 0.5))) for name, size in sizes.items()}


@pytest.mark.parametrize(
    ("name", "shape", "n_classes", "image_shape"),
    [("BC", (569, 30), 2, None), ("Wine", (178, 13), 3, None), ("Digits", (1797, 64), 10, (8, 8))],
)
def test_embedded(name: str, shape: tuple[int, int], n_classes: int, image_shape: tuple[int, int] | None) -> None:
    """What scikit-learn ships needs no file and comes whole, as float64."""
    data = datasets.load(name, "nowhere")
    assert (data.name, data.X.shape, data.X.dtype) == (name, shape, np.float64)
    assert len(data.classes) == n_classes == len(np.unique(data.y))
    assert (data.image_shape, data.bands, data.positions, data.sha256) == (image_shape, False, None, {})
    assert data.source
    assert data.licence


def test_names() -> None:
    """Every name is listed once, the crop of Pavia as a data set of its own."""
    assert datasets.names() == ["BC", "Wine", "Digits", "COIL20", "IndianPines", "Pavia", "PaviaCrop"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "Iris"}, "name='Iris' is not allowed: it must be one of 'BC', 'Wine', 'Digits', 'COIL20'"),
        ({"name": None}, "name=None is not allowed"),
        ({"name": "BC", "fraction": 0}, r"fraction=0 is not allowed: it must be a number in \(0, 1\]"),
        ({"name": "BC", "fraction": 1.5}, "fraction=1.5 is not allowed"),
        ({"name": "BC", "fraction": float("nan")}, "fraction=nan is not allowed"),
        ({"name": "BC", "seed": -1}, "seed=-1 is not allowed: it must be a whole number >= 0"),
        ({"name": "BC", "unverified": "yes"}, "unverified='yes' is not allowed: it must be True or False"),
    ],
)
def test_wrong_arguments(arguments: dict[str, object], message: str) -> None:
    """A wrong argument is named, with its value and what is allowed."""
    with pytest.raises(ValueError, match=message):
        datasets.load(**arguments)
    with pytest.raises(ValueError, match="name='Iris' is not allowed"):
        datasets.fetch("Iris")


@pytest.mark.parametrize("fraction", [0.001, 0.2, 0.5, 1.0])
def test_share_of_every_class(fraction: float) -> None:
    """Every class gives its rounded share, at least one row."""
    assert counts(datasets.load("BC", fraction=fraction)) == share(counts(datasets.load("BC")), fraction)


def test_seed_decides_the_rows() -> None:
    """One seed gives the same rows again, another gives others, and a larger share contains the smaller."""
    first, again, other, more = (
        datasets.load("BC", fraction=share, seed=seed) for share, seed in [(0.2, 3), (0.2, 3), (0.2, 4), (0.3, 3)]
    )
    np.testing.assert_array_equal(first.X, again.X)
    assert not np.array_equal(first.X, other.X)
    assert set(map(tuple, first.X)) < set(map(tuple, more.X))


def test_rows_keep_their_order_and_labels() -> None:
    """A sub-sample is a sub-sequence of the rows, each with its own label."""
    all_rows, some = datasets.load("BC"), datasets.load("BC", fraction=0.2)
    at = [int(np.flatnonzero((row == all_rows.X).all(axis=1))[0]) for row in some.X]
    assert at == sorted(at)
    np.testing.assert_array_equal(all_rows.y[at], some.y)


def test_folder_by_argument_environment_and_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The argument wins over DSPNMF_DATA, and that over the user's cache folder."""
    monkeypatch.setenv("DSPNMF_DATA", str(tmp_path / "variable"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert datasets.data_folder(tmp_path) == tmp_path
    assert datasets.data_folder() == tmp_path / "variable"
    monkeypatch.delenv("DSPNMF_DATA")
    assert datasets.data_folder() == tmp_path / "cache" / "dspnmf"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert datasets.data_folder() == Path.home() / ".cache" / "dspnmf"


def test_missing_folder_and_file(tmp_path: Path) -> None:
    """A missing folder and a missing file have different messages, with the ways to provide them."""
    fix = r"Pass data_dir=, or set the environment variable DSPNMF_DATA.*fetch\('COIL20'\)"
    with pytest.raises(FileNotFoundError, match=f"COIL20.mat in .*nowhere, but there is no such folder.*{fix}"):
        datasets.load("COIL20", tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=f"COIL20.mat in .*, but that file cannot be read.*{fix}"):
        datasets.load("COIL20", tmp_path)


def test_fetch_is_offered_where_it_works(tmp_path: Path) -> None:
    """A file without an address has its source named instead of a download; one to be trusted, the whole call."""
    with pytest.raises(FileNotFoundError, match=r"no address to fetch it from is known. Source: 140 x 80 crop"):
        datasets.load("PaviaCrop", tmp_path)
    (tmp_path / "PaviaU_subset_140x80.mat").write_bytes(b"damaged")
    with pytest.raises(ValueError, match=r"put the right one there. Source: 140 x 80 crop"):
        datasets.load("PaviaCrop", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"fetch\('Pavia', unverified=True\)\.$"):
        datasets.load("Pavia", tmp_path, unverified=True)


@pytest.mark.parametrize("content", [b"", b"not the file"])
def test_wrong_checksum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    """A file with another checksum is refused, even as unverified, before it is parsed."""
    monkeypatch.setattr(datasets, "loadmat", lambda *_, **__: pytest.fail("parsed before it was verified"))
    (tmp_path / "COIL20.mat").write_bytes(content)
    found, expected = hashlib.sha256(content).hexdigest(), datasets._SHA256["COIL20.mat"]
    with pytest.raises(ValueError, match=f"COIL20.mat is not the published file.*{found}.*{expected}.*fetch"):
        datasets.load("COIL20", tmp_path, unverified=True)


@pytest.mark.parametrize("file", FILES)
def test_known_checksums(data_folder: Path, file: str) -> None:
    """The table has the checksums of the published files."""
    assert hashlib.sha256((data_folder / file).read_bytes()).hexdigest() == datasets._SHA256[file]


def test_coil_images_are_upright(data_folder: Path) -> None:
    """Row-major images equal the column-major ones of the file, and a car seen from the side is wider than high."""
    data, raw = datasets.load("COIL20", data_folder), loadmat(data_folder / "COIL20.mat")
    assert data.X.shape == (1440, 1024)
    assert data.X.flags.c_contiguous
    assert set(counts(data).values()) == {72}
    assert data.classes == tuple(str(number) for number in range(1, 21))
    for i in (0, 700, 1439):
        np.testing.assert_array_equal(data.X[i].reshape(data.image_shape), raw["fea"][i].reshape(32, 32, order="F"))
        assert data.classes[data.y[i]] == str(raw["gnd"][i, 0])
    car = data.X[2 * 72].reshape(32, 32) > 0.2  # object 3
    assert np.ptp(np.flatnonzero(car.any(axis=0))) > np.ptp(np.flatnonzero(car.any(axis=1)))
    assert data.sha256 == {"COIL20.mat": datasets._SHA256["COIL20.mat"]}


def test_indian_pines_as_in_the_paper(data_folder: Path) -> None:
    """Nine classes of at least 390 pixels, 20 % of each."""
    data = datasets.load("IndianPines", data_folder)
    assert data.X.shape == (1848, 200)
    assert counts(data) == share(PINES, 0.2)
    assert data.bands
    assert data.image_shape is None
    assert len(data.sha256) == 2
    assert counts(datasets.load("IndianPines", data_folder, fraction=1)) == PINES


def test_positions_lead_back_to_the_scene(data_folder: Path) -> None:
    """Every row is the spectrum of the pixel at its position, and its label is the map's."""
    data = datasets.load("IndianPines", data_folder, seed=1)
    cube = loadmat(data_folder / "Indian_pines_corrected.mat")["indian_pines_corrected"]
    labels = loadmat(data_folder / "Indian_pines_gt.mat")["indian_pines_gt"]
    rows, columns = data.positions.T
    np.testing.assert_array_equal(data.X, cube[rows, columns])
    np.testing.assert_array_equal(np.array([2, 3, 5, 6, 8, 10, 11, 12, 14])[data.y], labels[rows, columns])
    assert data.scene_shape == labels.shape == (145, 145)


def test_pavia_crop_is_not_pavia(data_folder: Path) -> None:
    """The crop has all its labelled pixels, a name of its own, and a warning in its source."""
    data = datasets.load("PaviaCrop", data_folder)
    assert (data.name, data.X.shape, data.scene_shape) == ("PaviaCrop", (2928, 103), (140, 80))
    assert counts(data) == PAVIA_CROP
    assert "must not be compared with published results on Pavia University" in data.source


def test_pavia_cannot_be_verified_yet(data_folder: Path, tmp_path: Path) -> None:
    """The full scene is refused unless the user accepts it; its labels are verified in either case."""
    shutil.copy(data_folder / "PaviaU_gt.mat", tmp_path)
    savemat(tmp_path / "PaviaU.mat", {"paviaU": np.ones((610, 340, 2), dtype=np.uint16)})
    with pytest.raises(ValueError, match=r"needs PaviaU.mat, whose SHA-256 is not known.* with unverified=True"):
        datasets.load("Pavia", tmp_path)
    data = datasets.load("Pavia", tmp_path, unverified=True)
    assert len(data.classes) == 9
    assert counts(data)["Shadows"] == round(0.2 * 947)
    assert data.sha256["PaviaU.mat"] == hashlib.sha256((tmp_path / "PaviaU.mat").read_bytes()).hexdigest()
    savemat(tmp_path / "PaviaU.mat", {"paviaU": np.ones((6, 3, 2))})
    with pytest.raises(ValueError, match=r"shape \(6, 3, 2\), its labels have \(610, 340\): they must agree"):
        datasets.load("Pavia", tmp_path, unverified=True)
    (tmp_path / "PaviaU.mat").write_bytes(b"<html>moved</html>" * 50)
    with pytest.raises(ValueError, match=r"PaviaU\.mat has no readable variable 'paviaU'"):
        datasets.load("Pavia", tmp_path, unverified=True)


class Publisher(http.server.BaseHTTPRequestHandler):
    """Sends what `files` has under a path: a body, and the length it claims."""

    files: dict[str, tuple[bytes, int]]
    asked: list[str]

    def do_GET(self) -> None:
        """Answer, and remember what was asked for."""
        self.asked.append(self.path)
        if self.path not in self.files:
            self.send_error(404)
            return
        body, length = self.files[self.path]
        self.send_response(200)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def publisher(monkeypatch: pytest.MonkeyPatch):
    """A server on this machine that stands for the publishers of Indian Pines, with files and checksums of its own."""
    pytest.importorskip("pooch", reason="fetch needs pooch: pip install 'dspnmf[paper]'")
    content = {"Indian_pines_corrected.mat": b"cube" * 1000, "Indian_pines_gt.mat": b"labels" * 100}
    handler = type("Handler", (Publisher,), {"asked": [], "files": {}})
    handler.files = {f"/{name}": (body, len(body)) for name, body in content.items()}
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        for name, body in content.items():
            monkeypatch.setitem(datasets._URLS, name, f"http://127.0.0.1:{server.server_port}/{name}")
            monkeypatch.setitem(datasets._SHA256, name, hashlib.sha256(body).hexdigest())
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield handler
        server.shutdown()
        thread.join()


def test_fetch(publisher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only whole files arrive in a new folder, nothing is printed, and a second call downloads nothing."""
    folder, printed = tmp_path / "new" / "folder", []
    talk = sys.modules["pooch"].get_logger()
    monkeypatch.setattr(talk, "handle", printed.append)
    level = talk.level
    paths = datasets.fetch("IndianPines", folder)
    assert sorted(folder.iterdir()) == sorted(paths)
    assert [path.read_bytes() for path in paths] == [publisher.files[f"/{path.name}"][0] for path in paths]
    asked = list(publisher.asked)
    assert datasets.fetch("IndianPines", folder) == paths
    assert publisher.asked == asked
    assert printed == []
    assert talk.level == level


def test_fetch_replaces_a_damaged_file(publisher, tmp_path: Path) -> None:
    """Only the file that is wrong is downloaded again."""
    paths = datasets.fetch("IndianPines", tmp_path)
    paths[1].write_bytes(b"damaged")
    publisher.asked.clear()
    datasets.fetch("IndianPines", tmp_path)
    assert publisher.asked == ["/Indian_pines_gt.mat"]
    assert paths[1].read_bytes() == publisher.files["/Indian_pines_gt.mat"][0]


@pytest.mark.parametrize("fault", ["corrupt", "truncated", "gone"])
def test_failed_download_leaves_nothing(publisher, tmp_path: Path, fault: str) -> None:
    """After a corrupt, truncated or missing download the first file stays and nothing half-written is left."""
    body, length = publisher.files.pop("/Indian_pines_gt.mat")
    kind, message = OSError, "Indian_pines_gt.mat could not be downloaded from http.*check the network"
    if fault == "corrupt":
        publisher.files["/Indian_pines_gt.mat"] = (body[::-1], length)
        expected, found = (hashlib.sha256(sent).hexdigest() for sent in (body, body[::-1]))
        kind, message = ValueError, f"sent something else than Indian_pines_gt.mat.*{expected}.*{found}"
    elif fault == "truncated":
        publisher.files["/Indian_pines_gt.mat"] = (body[:100], length)
    with pytest.raises(kind, match=message):
        datasets.fetch("IndianPines", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["Indian_pines_corrected.mat"]


def test_fetch_offline(publisher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody answers, the error names the file, the address, the folder and the way by hand."""
    url = "http://127.0.0.1:9/Indian_pines_corrected.mat"  # the discard port: nothing listens
    monkeypatch.setitem(datasets._URLS, "Indian_pines_corrected.mat", url)
    message = f"from {url} to {re.escape(str(tmp_path))}.*check the network.*by other means and put it into"
    with pytest.raises(OSError, match=message):
        datasets.fetch("IndianPines", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_fetch_refuses_before_it_asks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A data set without an address or a checksum is refused without any download."""
    monkeypatch.setattr(datasets, "_download", lambda *_: pytest.fail("asked the network"))
    with pytest.raises(ValueError, match=r"PaviaCrop cannot be downloaded.*PaviaU_subset_140x80.mat.* yourself"):
        datasets.fetch("PaviaCrop", tmp_path)
    with pytest.raises(ValueError, match=r"Pavia needs PaviaU.mat, whose SHA-256 is not known"):
        datasets.fetch("Pavia", tmp_path)
    assert datasets.fetch("Digits", tmp_path) == []


def test_missing_pooch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without pooch the error says how to install it."""
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=r'pip install "dspnmf\[paper\]"'):
        datasets.fetch("COIL20", tmp_path)


def test_only_publishers_addresses() -> None:
    """Every file has a checksum or an address, and every address belongs to a publisher."""
    hosts = {url.split("/")[2] for url in datasets._URLS.values()}
    assert hosts == {"www.ehu.eus", "www.cad.zju.edu.cn"}
    assert datasets._URLS.keys() - datasets._SHA256.keys() == {"PaviaU.mat"}
