"""A frozen network from a local folder, with a linear head that is trained. Nothing is ever downloaded.

For torch teachers and students: `factory = "consilium.models.backbones:backbone"` with `images = true`,
and the folder among `parameters`. Rows are embedded once, and only the head is trained. Whoever
has the embeddings already gives them as features, which is the same and faster: any teacher will do then.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

from consilium.models.naming import UnusableModel, told

WEIGHTS = "model.safetensors"
_INSTALL = "pip install 'consilium-pate[backbones]'"


class FrozenBackbone(nn.Module):
    """`body` gives (n, width) for images (n, channels, side, side); `head` is what is trained.

    Images of one channel are repeated to `channels`, and resized to `side` pixels if that is not 0.
    """

    def __init__(self, body: nn.Module, width: int, classes: int, channels: int, side: int) -> None:
        super().__init__()
        self.body = body.eval().requires_grad_(False)
        self.head = nn.Linear(width, classes)
        self.channels = channels
        self.side = side

    def embed(self, x: torch.Tensor) -> torch.Tensor:
        """Rows as they come -> (n, width)."""
        if x.ndim == 4:
            x = x.expand(-1, self.channels, -1, -1)
            if self.side:
                x = functional.interpolate(x, size=(self.side, self.side), mode="bilinear", antialias=True)
        found = self.body(x)
        return found.flatten(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits (n, classes)."""
        return self.head(self.embed(x))

    def train(self, mode: bool = True) -> FrozenBackbone:
        """The body stays as it is: its batch norms learn nothing either."""
        super().train(mode)
        self.body.eval()
        return self


def with_head(
    body: nn.Module, inputs: int | tuple[int, int, int], classes: int, channels: int = 3, side: int = 0
) -> FrozenBackbone:
    """A body with a new head for `classes`; `inputs` and `classes` are what a torch factory is called with.

    Raises
    ------
    UnusableModel : the body does not take such inputs.
    """
    try:
        with torch.no_grad():
            probe = torch.zeros(1, *((inputs,) if isinstance(inputs, int) else inputs))
            width = FrozenBackbone(body, 1, classes, channels, side).embed(probe).shape[1]
    except Exception as error:
        raise UnusableModel(f"the backbone takes no inputs {inputs}: {told(error)}", "Set channels and side") from None
    return FrozenBackbone(body, width, classes, channels, side)


def weights_into(module: nn.Module, folder: str | Path) -> nn.Module:
    """The module with the weights of `model.safetensors` in a local folder; a pickle is never read.

    Raises
    ------
    UnusableModel : there is none, or it is of another module.
    """
    from safetensors.torch import load_file

    try:
        module.load_state_dict(load_file(_weights(Path(folder))), strict=True)
    except UnusableModel:
        raise
    except Exception as error:
        raise UnusableModel(f"{folder} holds another module: {told(error)}", "Look at its files") from None
    return module


def backbone(
    inputs: int | tuple[int, int, int], classes: int, *, folder: str, library: str, channels: int = 3, side: int = 0
) -> FrozenBackbone:
    """A factory for torch teachers and students, of what a library saved in a local folder.

    library : "timm" (`config.json` and `model.safetensors`, as `timm.models.save_for_hf` writes them), or
    "transformers" (`save_pretrained`). For a module of your own write a factory of `weights_into` and `with_head`. No
    argument names code: whoever loads a published student passes this factory what the file says.

    Raises
    ------
    UnusableModel : the folder or the library is not there, or they do not fit.
    """
    if library not in _LIBRARIES:
        raise UnusableModel(f"backbone library {library!r} is not known", f"Use one of {', '.join(_LIBRARIES)}")
    try:
        body = _LIBRARIES[library](_weights(Path(folder)).parent)
    except UnusableModel:
        raise
    except ModuleNotFoundError as error:
        raise UnusableModel(f"a backbone of {library} needs {error.name}, which is not installed", _INSTALL) from None
    except Exception as error:
        raise UnusableModel(f"the backbone in {folder} cannot be used: {told(error)}", "Look at its files") from None
    return with_head(body, inputs, classes, channels, side)


def _timm(folder: Path) -> nn.Module:
    import timm  # pyright: ignore[reportMissingImports]  # of the extra

    return timm.create_model(f"local-dir:{folder.resolve()}", pretrained=True, num_classes=0)


def _transformers(folder: Path) -> nn.Module:
    from transformers import AutoModel  # pyright: ignore[reportMissingImports]  # of the extra

    return _Pooled(
        AutoModel.from_pretrained(str(folder), local_files_only=True, use_safetensors=True, trust_remote_code=False)
    )


class _Pooled(nn.Module):
    """What a transformer says of the whole image: its pooled output, or the mean over places."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = self.model(pixel_values=x)
        pooled = getattr(found, "pooler_output", None)
        return found.last_hidden_state.mean(dim=1) if pooled is None else pooled


def _weights(folder: Path) -> Path:
    """A file that holds numbers only; pickles of older folders are not read."""
    path = folder / WEIGHTS
    if not folder.is_dir():
        raise UnusableModel(f"there is no folder {folder} with a backbone", "Download it before: nothing is fetched")
    if not path.is_file():
        raise UnusableModel(f"{folder} has no {WEIGHTS}", "Save the weights as safetensors: a pickle is not read")
    return path


_LIBRARIES: dict[str, Callable[[Path], nn.Module]] = {"timm": _timm, "transformers": _transformers}
