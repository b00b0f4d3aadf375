"""`weft completion` completes commands, options and their values, in each installed shell."""

import shutil
import subprocess

import pytest

from weft.isa.chips import CHIPS
from weft.passes import PASSES
from weft.tools import weft as tool

COMMANDS = {command.name for command in tool.COMMANDS}
# What is typed, and what the last word may become; an empty set is for files.
LINES = {
    "weft ": COMMANDS,
    "weft com": {"compile", "completion"},
    "weft compile --em": {"--emit"},
    "weft compile --emit s": {"sass"},
    "weft compile k.mlir --arch sm_9": {"sm_90", "sm_90a"},
    "weft run --on ": {"gpu", "emulator"},
    "weft isa wg": {"wgmma", *(f"wgmma.{n}" for n in ("mma_async", "mma_async.sp", "fence"))},
    "weft completion z": {"zsh"},
    "weft emulate --no": {"--no-sanitize"},
    "weft-opt --lower-g": {"--lower-gemm", "--lower-gemm-async"},
    "weft-opt --list-p": {"--list-passes"},
}


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    """The file of each shell's completions."""
    folder, found = tmp_path_factory.mktemp("completion"), {}
    for shell in ("bash", "zsh", "fish"):
        with pytest.MonkeyPatch.context() as patch:
            said = []
            patch.setattr("weft.tools.cli.say", said.append)
            assert tool.main(["completion", shell]) == 0
        found[shell] = folder / f"weft.{shell}"
        found[shell].write_text(f"{said[0]}\n")
    return found


def run(*command, text=""):
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, check=False, timeout=60, cwd="/"
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout.splitlines()


def bash(script, line):
    *words, last = line.split(" ")
    given = " ".join(f"'{word}'" for word in (*words, last))
    function = "_weft_opt" if words[0] == "weft-opt" else "_weft"
    asked = f"COMP_WORDS=({given}) COMP_CWORD={len(words)}; {function}"
    return run("bash", "-c", f"source {script}; {asked}; printf '%s\\n' \"${{COMPREPLY[@]}}\"")


def fish(script, line):
    text = f"source {script}; complete -C {line!r}"
    return [found.partition("\t")[0] for found in run("fish", "--no-config", text=text)]


def zsh(script, line, word):
    """zsh completes in a terminal alone: one is made, and `word` waited for in what is offered there."""
    text = f"""
        zmodload zsh/zpty; zpty shell zsh -f -i
        zpty -w shell 'PS1=; PS2=; LISTMAX=0; autoload -U compinit; compinit -D -u; source {script}'
        zpty -w shell "zstyle ':completion:*' list-separator '--'; setopt no_list_beep; stty columns 20"
        zpty -w shell 'echo rea''dy'; zpty -r shell found '*ready*'
        zpty -n -w shell $'{line}\\C-d'; zpty -r shell found '*{word}*'; print -r -- "$found"
    """
    return run("zsh", "-f", "-c", text)


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("complete", [bash, fish], ids=lambda shell: shell.__name__)
def test_words_are_completed(complete, line, scripts):
    if shutil.which(complete.__name__) is None:
        pytest.skip(f"{complete.__name__} isn't installed")
    found = {word for word in complete(scripts[complete.__name__], line) if word}
    wanted = LINES[line]
    assert wanted <= found
    assert all(word.startswith(line.rsplit(" ", 1)[1]) for word in found)


def test_bash_completes_after_an_equals_sign(scripts):
    text = f"source {scripts['bash']}; COMP_WORDS=(weft compile --arch = sm_10) COMP_CWORD=4; _weft"
    found = run("bash", "-c", f"{text}; echo ${{COMPREPLY[@]}}")
    assert found == [" ".join(chip for chip in CHIPS if chip.startswith("sm_10"))]


def test_bash_leaves_files_to_itself(scripts):
    assert bash(scripts["bash"], "weft compile exa") == [""]
    assert bash(scripts["bash"], "weft compile -o exa") == [""]


@pytest.mark.parametrize(("line", "word"), [("weft com", "completion"), ("weft compile --ar", "--arch")])
def test_zsh_completes(line, word, scripts):
    if shutil.which("zsh") is None:
        pytest.skip("zsh isn't installed")
    assert word in "".join(zsh(scripts["zsh"], line, word))


def test_every_pass_is_an_option(scripts):
    for shell, script in scripts.items():
        text = script.read_text()
        dashes = "-l " if shell == "fish" else "--"
        assert all(f"{dashes}{flag}" in text for flag in PASSES), shell
