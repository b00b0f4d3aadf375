"""What a user installs: the source distribution holds the whole project, the wheel the whole package, and the
commands of the README are those that run.
"""

import datetime
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import weft
from weft.tools import weft as weft_tool
from weft.tools import weft_opt

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "weft": "python/weft",
    "weft/dialects": "dialects",
    "weft/passes": "passes",
    "weft/tools": "tools",
}
IN_SDIST = (
    "python",
    "dialects",
    "passes",
    "tools",
    "test",
    "examples",
    "docs",
    "editors",
    "benchmarks",
    "scripts",
    ".ci",
)
TOP = (
    *("CMakeLists.txt", "pyproject.toml", "setup.py", "MANIFEST.in", ".pre-commit-config.yaml"),
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "mkdocs.yml"),
)
MADE = (
    "__pycache__",
    "node_modules",
    "Output",
    "build",
    "dist",
    ".*_cache",
    ".hypothesis",
    "*.egg-info",
    "*.pyc",
    "*.so",
    ".lit_*",
)


def files(folder):
    """The files of a folder that belong to the project, as `folder/…`."""
    found = (p.relative_to(folder) for p in folder.rglob("*") if p.is_file())
    return {p for p in found if not any(Path(part).match(made) for part in p.parts for made in MADE)}


def build(what, source, into):
    """Runs a hook of the build backend, as pip does, and returns what it has made."""
    code = f"import sys, setuptools.build_meta as backend; backend.{what}(sys.argv[1])"
    into.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code, into], cwd=source, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = into.iterdir()
    return made


def distributions(base, *options):
    """The source distribution and the wheel that `python -m build` makes of the project, in this order."""
    for name in filter(lambda name: (ROOT / name).exists(), (*IN_SDIST, *TOP)):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        (base / "tree").mkdir(exist_ok=True)
        copy(ROOT / name, base / "tree" / name)
    command = [sys.executable, "-m", "build", *options, "--outdir", base / "made", base / "tree"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted((base / "made").iterdir(), key=lambda path: path.suffix)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The source distribution, and the wheel built from it."""
    return distributions(tmp_path_factory.mktemp("distributions"), "--no-isolation")


@pytest.fixture(scope="module")
def sdist(made, tmp_path_factory):
    """The unpacked source distribution."""
    into = tmp_path_factory.mktemp("sdist")
    shutil.unpack_archive(made[0], into)
    (unpacked,) = into.iterdir()
    return unpacked


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from a copy of the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in (*PACKAGES.values(), *TOP):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / "tree" / name, symlinks=True)
        else:
            shutil.copy(ROOT / name, folder / "tree")
    return build("build_wheel", folder / "tree", folder / "made")


@pytest.mark.slow
def test_the_sdist_holds_the_whole_project(sdist):
    for folder in filter(Path.exists, (ROOT / name for name in IN_SDIST)):
        assert files(folder) <= files(sdist / folder.name), folder.name
    assert [name for name in TOP if not (sdist / name).is_file()] == []


def modules():
    """What the wheel must hold: every module, host code, tuned schedules, types, and their mark."""
    return {
        str(Path(package) / path)
        for package, folder in PACKAGES.items()
        for path in files(ROOT / folder)
        if path.suffix in (".py", ".pyi", ".jsonl") or path.name == "py.typed"
    }


def test_every_package_is_listed():
    """A package that isn't listed would be missing in the wheel."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["packages"]
    found = {str(Path(each).parent).replace("/", ".") for each in modules() if each.endswith("__init__.py")}
    assert sorted(listed) == sorted(found)


def held(wheel):
    """The files in a wheel, except its host code: that is compiled where there is a C compiler."""
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    return names - {"weft/launch/compiled.abi3.so"}


def test_the_wheel_holds_every_module_and_nothing_else(wheel):
    assert held(wheel) == modules()


@pytest.mark.slow
def test_the_wheel_of_the_sdist_holds_the_same(made):
    assert held(made[1]) == modules()


@pytest.mark.slow
def test_a_package_that_is_left_out_would_be_noticed(sdist, tmp_path):
    tree = tmp_path / "tree"
    shutil.copytree(sdist, tree, ignore=shutil.ignore_patterns("build"))
    text = (tree / "pyproject.toml").read_text("utf-8")
    assert '"weft.passes",' in text
    (tree / "pyproject.toml").write_text(text.replace('"weft.passes",', ""), "utf-8")
    lost = modules() - held(build("build_wheel", tree, tmp_path / "made"))
    assert {Path(name).parent for name in lost} == {Path("weft/passes")}


SMOKE = """
import sys
from pathlib import Path
import numpy as np
import weft
package = Path(weft.__file__).parent
assert package.is_relative_to(sys.prefix), package
for data in ("py.typed", "schedules/*.jsonl"):
    assert any(package.glob(data)), data
a, b = np.random.default_rng(0).standard_normal((2, 48, 48)).astype(np.float16)
np.testing.assert_allclose(weft.matmul(a, b, out_dtype="f32"), a.astype(np.float64) @ b, atol=1e-3)
"""


# Each program is started once by default; slow tests also run all that a user would first.
FEW = {
    ("weft", "isa", "wgmma.fence", "--arch", "sm_90a"): "wgmma.fence",
    ("weft-opt", "matmul.mlir", "--weft-kernel=chip=sm_90"): "gpu.func",
}
MORE = {
    ("weft", "run", "matmul.mlir", "--on", "emulator", "--shape", "32x32x32"): "PASS",
    ("weft", "--version"): f"weft {weft.__version__}",
}


def smoke_test(python, folder, commands):
    """Uses the package and the programs of an environment, in a folder outside of the checkout."""
    shutil.copy(ROOT / "examples" / "matmul.mlir", folder)
    programs = python.parent
    settings = {
        "PATH": f"{programs}:/usr/bin:/bin",
        "WEFT_CACHE_DIR": str(folder / "cache"),
        "CUDA_VISIBLE_DEVICES": "",
    }
    for (program, *arguments), expected in {(python.name, "-c", SMOKE): "", **commands}.items():
        command = [programs / program, *arguments]
        done = subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        assert expected in done.stdout, command


def installed(wheel, into, *options):
    """Installs a wheel into a new environment; returns its Python."""
    venv.create(into, with_pip=False)
    python = into / "bin" / "python"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--quiet",
        "--no-compile",
        *options,
        wheel,
    ]
    subprocess.run(pip, check=True)
    return python


@pytest.mark.slow
def test_an_installed_wheel_works_without_the_checkout(wheel, tmp_path):
    """What Weft needs is there already: the new environment finds it in the environment of the tests."""
    python = installed(wheel, tmp_path / "venv", "--no-deps")
    (packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    (packages / "needed.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    smoke_test(python, tmp_path, FEW)


@pytest.mark.slow
def test_distributions_built_and_installed_from_the_network_work(tmp_path):
    _, wheel = distributions(tmp_path)
    smoke_test(installed(wheel, tmp_path / "venv"), tmp_path, FEW | MORE)


# Which other packages are installed is not the matter here: with them skipped, mypy is done in a second.
USER = """
import weft
import weft.dialects.tile
import weft.passes
import weft.tools.weft
"""


def environment(archive, into):
    """A virtual environment of this Python that holds a wheel."""
    venv.create(into, with_pip=False)
    (packages,) = into.glob("lib/python*/site-packages")
    shutil.unpack_archive(archive, packages, "zip")
    return into / "bin" / "python"


def mypy(python, folder, text, *options):
    """What mypy says about a user's file outside of the checkout."""
    (folder / "user.py").write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", python, *options, "user.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def editable(sdist, tmp_path_factory):
    """The wheel of an editable install of the unpacked sources."""
    tree = tmp_path_factory.mktemp("editable") / "tree"
    shutil.copytree(sdist, tree, ignore=shutil.ignore_patterns("build", "*.egg-info"))
    made = build("build_editable", tree, tmp_path_factory.mktemp("editable") / "made")
    assert not list(tree.glob("python/*.egg-info")), "it would be taken for sources"
    return made


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize("how", ["wheel", "editable"])
def test_mypy_finds_the_types_of_an_installed_package(how, request, tmp_path):
    python = environment(request.getfixturevalue(how), tmp_path / "venv")
    assert "Success" in mypy(python, tmp_path, USER, "--follow-imports=skip")


@pytest.mark.slow
def test_mypy_finds_mistakes_of_users_of_an_editable_install(editable, tmp_path):
    python = environment(editable, tmp_path / "venv")
    (packages,) = tmp_path.glob("venv/lib/python*/site-packages")
    numpy = Path(pytest.importorskip("numpy").__file__).parents[1]
    (packages / "others.pth").write_text(f"{numpy}\n")
    said = mypy(python, tmp_path, "import weft\nweft.compile('', arch=3)\nweft.compile('').launches\n")
    assert 'Argument "arch" to "compile" has incompatible type "int"' in said
    assert '"Kernel" has no attribute "launches"' in said


@pytest.mark.slow
def test_an_editable_install_is_the_checkout_itself(editable, tmp_path):
    environment(editable, tmp_path / "venv")
    (paths,) = (tmp_path / "venv").glob("lib/python*/site-packages/*weft*.pth")
    source = Path(paths.read_text().strip())
    for package, folder in PACKAGES.items():
        assert (source / package).resolve() == source.parent / folder


def readme_commands():
    """The two commands that set everything up."""
    return [
        line for line in (ROOT / "README.md").read_text("utf-8").splitlines() if line.startswith("scripts/")
    ]


def test_ci_runs_the_second_command_of_the_readme_and_nothing_else():
    script = ROOT / ".ci" / "run"
    _, tests = readme_commands()
    lines = [line for line in script.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    assert lines == ['cd "$(dirname "$0")/.."', tests]
    assert os.access(script, os.X_OK)


# Programs that log how they were called. python3 makes no environment before apt-get has installed a package.
_LOG = 'echo "$(basename "$0") $*" >> "$LOG"\n'
_STUBS = {
    "python3": _LOG + 'if ! [ -e "$LOG.packages" ]; then exit 1; fi\n',
    "sudo": _LOG + '"$@"\n',
    "apt-get": _LOG + 'touch "$LOG.packages"\n',
}


def write_program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)


@pytest.fixture
def machine(tmp_path):
    """A function that runs one of the scripts on a machine of stubs, and returns the calls of programs."""
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    for tool in ("pip", "python"):
        write_program(tmp_path / ".venv" / "bin" / tool, _LOG)

    def call(*command, stubs=("python3", "apt-get"), ready=False):
        log, programs = tmp_path / "log", tmp_path / "bin"
        for name in stubs:
            write_program(programs / name, _STUBS[name])
        for name in ("dirname", "basename", "touch"):
            (programs / name).symlink_to(shutil.which(name))
        if ready:
            (tmp_path / "log.packages").touch()
        environment = {"PATH": str(programs), "LOG": str(log)}
        subprocess.run(["/bin/sh", *command], cwd=programs, env=environment, check=True, timeout=30)
        return log.read_text().splitlines()

    return call


MAKE = "python3 -m venv .venv"
UPGRADE = "pip install --no-compile --upgrade pip setuptools"
INSTALL = "pip install --no-compile --no-build-isolation -e ."


def test_installing_needs_no_package_where_python_makes_environments(machine):
    assert machine("../scripts/install", ready=True) == [MAKE, UPGRADE, INSTALL]


@pytest.mark.parametrize("sudo", [[], ["sudo"]])
def test_installing_on_a_fresh_debian_adds_its_package(machine, sudo):
    calls = machine("../scripts/install", "test", stubs=("python3", "apt-get", *sudo))
    packages = ["apt-get update", "apt-get install -y python3-venv"]
    asked = [line for command in packages for line in (*(f"{name} {command}" for name in sudo), command)]
    assert calls == [MAKE, *asked, MAKE, UPGRADE, f"{INSTALL}[test]"]


def test_the_tests_run_after_installing_what_they_need(machine):
    calls = machine("../scripts/test", "lit", ready=True)
    assert calls == [MAKE, UPGRADE, f"{INSTALL}[test]", "python test/run.py lit"]


def test_the_commands_of_the_readme_are_the_scripts():
    assert all(os.access(script, os.X_OK) for script in (ROOT / "scripts").iterdir())
    install, tests = readme_commands()
    assert install == "scripts/install && .venv/bin/weft run examples/matmul.mlir"
    assert tests == "scripts/test"


def newest_release(changelog):
    """The version of the first release in a changelog, and its date."""
    heading = re.search(r"^## (\d+\.\d+\.\d+) - (\d{4}-\d{2}-\d{2})$", changelog, re.MULTILINE)
    assert heading is not None, "CHANGELOG.md must have a heading '## VERSION - YYYY-MM-DD'"
    return heading[1], datetime.date.fromisoformat(heading[2])


def test_the_version_is_that_of_the_newest_release(capsys):
    version, _ = newest_release((ROOT / "CHANGELOG.md").read_text())
    assert weft.__version__ == version
    for tool in (weft_tool.main, weft_opt.main):
        with pytest.raises(SystemExit):
            tool(["--version"])
        assert capsys.readouterr().out.splitlines()[0] == f"weft {version}"


@pytest.mark.slow
def test_distributions_have_the_version_of_the_package(made):
    version = weft.__version__
    source, wheel = (path.name for path in made)
    assert source == f"weft-{version}.tar.gz" and wheel.startswith(f"weft-{version}-cp311-abi3-")
    metadata = zipfile.ZipFile(made[1]).read(f"weft-{version}.dist-info/METADATA").decode()
    assert f"\nVersion: {version}\n" in metadata


def test_releases_in_the_changelog_are_dated_and_descend():
    text = (ROOT / "CHANGELOG.md").read_text()
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    releases = [newest_release(f"## {heading}\n") for heading in headings if heading != "Unreleased"]
    assert headings[0] == "Unreleased"
    numbers = [tuple(map(int, version.split("."))) for version, _ in releases]
    assert numbers == sorted(set(numbers), reverse=True)
    dates = [date for _, date in releases]
    assert dates == sorted(dates, reverse=True)
