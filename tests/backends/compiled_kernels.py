"""Compile the kernels that tiles launch, without a GPU: a line of JSON for each, with what it takes of a processor.

Arguments: the number of components, the precision of X, the compute capability. A script of its own, because Triton
interprets kernels or compiles them, for a whole process; tests interpret.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

from dspnmf.backends import cuda_fused
from dspnmf.backends.row_model import DivergenceModel, RandomCodes, RowModel, Slope
from dspnmf.backends.small_arrays import HOST
from dspnmf.backends.tensor_divergence import Pairs, SmallModel, Step

KINDS = {"float32": "fp32", "float64": "fp64", "int8": "i8", "int32": "i32", "int64": "i64"}
LAUNCHES: dict[str, tuple[Any, ...]] = {}  # by what makes a compilation another


def _is_one(value: Any) -> bool:
    """Whether Triton makes a constant of a number."""
    return isinstance(value, int) and value == 1


def kept(self: JITFunction, *args: Any, grid: Any, warmup: bool, **options: Any) -> None:
    """Keep a launch, in place of launching."""
    numbers = {name: options.pop(name) for name in ("num_warps", "num_stages") if name in options}
    given = dict(zip(self.arg_names, args, strict=False)) | options
    constants = {p.name: given[p.name] for p in self.params if p.is_constexpr or _is_one(given[p.name])}
    kinds = {}
    for name in self.arg_names:
        value = given[name]
        if name in constants:
            kinds[name] = "constexpr"
        elif isinstance(value, torch.Tensor):
            kinds[name] = "*" + KINDS[str(value.dtype).removeprefix("torch.")]
        else:
            kinds[name] = "fp32" if isinstance(value, float) else "i32" if abs(value) < 2**31 else "i64"
    LAUNCHES[f"{self.fn.__name__} {kinds} {constants} {numbers}"] = self, kinds, constants, numbers


def launches(n: int, m: int, k: int, dtype: torch.dtype) -> None:
    """Everything that tiles of k components launch."""
    X, U, D, G = (torch.zeros(*shape, dtype=dtype) for shape in ((n, m), (k, n), (k, n), (k, n)))
    t, S = torch.zeros((), dtype=torch.float64), torch.eye(k, dtype=torch.float64)
    tiles = cuda_fused.tiles_for(X, k)
    tiles.pull(X, torch.zeros(m, k, dtype=torch.float64), k)
    tiles.push(X, D)
    tiles.look(G, U, D, t, S, t, t)
    tiles.face(G, U, D, t, S, 2)
    w = {name: torch.zeros_like(U) for name in ("U", "D", "G", *"zrupq")}
    w["free"] = torch.zeros(k, n, dtype=torch.int8)
    tiles.cg_start(w, (t, t), S, S)
    tiles.couple(w, S, S)
    for turn in range(4):
        tiles.project(w, (t, t), turn == 0)
        tiles.cg_step(w, (t, t), S, S, w["z"] if turn == 3 else None, turn == 0)
        tiles.couple(w, S, S)
    tiles.combine(w, t, t)
    tiles.components(torch.zeros(m, k, dtype=torch.float64), torch.zeros(m, k, dtype=torch.float64), S, 1e-13)
    tiles.best_step(torch.zeros(4, dtype=torch.float64))
    tiles.coupling_part(S, torch.stack([S] * 4))
    along, model, step = Slope(t, S, S), RowModel(S, S, 1.0), None
    for _ in range(2):
        step = tiles.conjugate_step(HOST, along, model, step, 0.1, 1e-7)
    cuda_fused.facts(X)
    slabs = cuda_fused.slabs_for(X, 1.0, k, incomplete=False)(X, 1.0, 1.0, k, incomplete=False)
    components = DivergenceModel(1.0, torch.zeros(m, k, dtype=torch.float64))
    model = SmallModel.of(components, Pairs.of(k, X.device), dtype, 1e-15, anchored=True)
    look = slabs.slab(slice(0, n)).look(U, model)
    slabs.swept(Step.of(look.slab, look, model), model, 3)
    look.add_pull(slabs.sums())
    cuda_fused.draw(RandomCodes(0, 1.0, k, np.dtype(float)), U)


def compiled(capability: int) -> Iterator[dict[str, Any]]:
    """Of every kernel that was launched: registers and bytes of a thread, bytes of a program."""
    for kernel, kinds, constants, numbers in LAUNCHES.values():
        at = kernel.arg_names.index
        aligned = {(at(name),): [["tt.divisibility", 16]] for name in kinds if kinds[name].startswith("*")}
        source = ASTSource(kernel, kinds, {(at(name),): value for name, value in constants.items()}, aligned)
        made = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=numbers)
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(made.asm["cubin"])
            file.flush()
            tool = [triton.knobs.nvidia.cuobjdump.path, "--dump-resource-usage", file.name]
            used = subprocess.run(tool, capture_output=True, text=True, check=True).stdout
        registers, stack = (int(number) for number in re.search(r"REG:(\d+) STACK:(\d+)", used).groups())
        shared = made.metadata.shared
        yield {"name": kernel.fn.__name__, "registers": registers, "stack": stack, "shared": shared, **numbers}


if __name__ == "__main__":
    JITFunction.run = kept
    for shape in ((1000, 100), (2**17, 8), (1, 1)):
        launches(*shape, int(sys.argv[1]), getattr(torch, sys.argv[2]))
    for line in compiled(int(sys.argv[3])):
        sys.stdout.write(json.dumps(line) + "\n")
