"""Every package that Weft needs on a platform has a wheel for it."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from weft.errors import WeftError
from weft.launch import cuda_driver

ROOT = Path(__file__).resolve().parents[2]
PLATFORMS = {
    "linux x86_64": [f"manylinux{version}_x86_64" for version in ("2014", "_2_17", "_2_27", "_2_28")],
    "linux aarch64": [f"manylinux{version}_aarch64" for version in ("2014", "_2_17", "_2_27", "_2_28")],
    "darwin arm64": [f"macosx_{version}_0_arm64" for version in (11, 12, 13, 14)],
    "win32 amd64": ["win_amd64"],
}
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
NOT_ON_MACOS = "; sys_platform != 'darwin'"


def needed(system, extra=None):
    """The requirements of Weft or of an extra on a system, with its name as in `sys.platform`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    listed = project["optional-dependencies"][extra] if extra else project["dependencies"]
    listed = [text for text in listed if not text.startswith("weft[")]
    assert {text.partition(";")[2] for text in listed} <= {"", NOT_ON_MACOS[1:]}
    return [
        text.removesuffix(NOT_ON_MACOS)
        for text in listed
        if system != "darwin" or not text.endswith(NOT_ON_MACOS)
    ]


def resolved(packages, tags, folder, python="3.12"):
    """What pip says about these packages for a platform with these tags. Installs nothing."""
    options = [
        "--dry-run",
        "--no-deps",
        "--only-binary=:all:",
        f"--python-version={python}",
        "--target",
        folder,
    ]
    platforms = [f"--platform={tag}" for tag in tags]
    return subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, *platforms, *packages],
        capture_output=True,
        text=True,
        check=False,
    )


def test_macos_does_without_the_packages_of_nvidia():
    left_out = {text.partition(">")[0] for text in set(needed("linux")) - set(needed("darwin"))}
    assert left_out == {"cuda-bindings", "nvidia-cuda-nvcc", "nvidia-cuda-nvdisasm"}
    left_out = {text.partition("=")[0] for text in {*needed("linux", "test")} - {*needed("darwin", "test")}}
    assert left_out == {"nvidia-cuda-nvcc-cu12"}


def test_without_the_bindings_of_the_driver_there_is_a_word_about_them(monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(WeftError, match=r"cuda-bindings isn't installed.*pip install"):
        cuda_driver._initialized.__wrapped__()


@pytest.mark.slow
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_each_package_has_a_wheel(platform, python, tmp_path):
    done = resolved(needed(platform.split()[0]), PLATFORMS[platform], tmp_path, python)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("extra", ["lsp", "test"])
@pytest.mark.parametrize("platform", PLATFORMS)
def test_each_package_of_an_extra_has_a_wheel(platform, extra, tmp_path):
    done = resolved(needed(platform.split()[0], extra), PLATFORMS[platform], tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_missing_wheel_is_noticed(tmp_path):
    done = resolved(needed("linux"), PLATFORMS["darwin arm64"], tmp_path)
    assert done.returncode != 0
    assert "cuda-bindings" in done.stderr
