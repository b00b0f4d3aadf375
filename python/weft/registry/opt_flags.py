"""The flags of `weft-opt` other than passes: no pass may have such a name."""

from itertools import chain

# Each may be given a value: --verify-each=0.
SWITCHES = {
    "--tile-explain-dispatch": "print which schedule, candidate or instructions each tile op gets, and why",
    "--mlir-print-ir-before-all": "print the IR before each pass, to stderr",
    "--mlir-print-ir-after-all": "print the IR after each pass, to stderr",
    "--mlir-print-ir-after-change": "print the IR after each pass that changed it, to stderr",
    "--mlir-print-ir-after-failure": "print the IR after a pass that failed, to stderr",
    "--mlir-print-ir-module-scope": "print the whole module around what a pass ran on",
    "--mlir-timing": "print how long each pass took, to stderr",
    "--mlir-pass-statistics": "print what passes count, to stderr",
    "--mlir-disable-threading": "run passes on one thread",
    "--mlir-print-op-generic": "print operations in their generic form",
    "--mlir-print-debuginfo": "print locations",
    "--mlir-pretty-debuginfo": "print locations in a form that is easier to read, and can't be parsed",
    "--mlir-print-local-scope": "print types, attributes and locations where they are used, without aliases",
    "--mlir-print-skip-regions": "print operations without their regions",
    "--mlir-use-nameloc-as-prefix": "name values after their locations",
    "--emit-bytecode": "write MLIR bytecode instead of text",
    "--allow-unregistered-dialect": "accept operations of unknown dialects",
    "--no-verify": "run passes without verifying after each",
    "--list-passes": "list passes and pipelines, and stop",
    "--show-dialects": "list dialects, and stop",
    "--dump-irdl": "print Weft's dialects in IRDL, for mlir-opt --irdl-file, and stop",
    "--no-implicit-module": "don't put a module around the input, which must be one operation",
    "--dump-pass-pipeline": "print the pipeline that runs, to stderr",
    "--run-reproducer": "run the pipeline that a reproducer holds",
    "--verify-each": "verify the IR after each pass (the default)",
    "--verify-roundtrip": "check that the result, printed and parsed again, is the same",
}

# Flags that may have a value: its name, the value without one, and what they do.
VALUED_SWITCHES = {
    "--split-input-file": (
        "MARKER",
        "// -----",
        "treat the parts between lines of the marker as files of their own",
    ),
    "--verify-diagnostics": (
        "all|only-expected",
        "all",
        "check the diagnostics against expected-error comments; others are mistakes, unless only-expected",
    ),
}

# Flags with a value, by the names of their values. An alias follows its flag.
OPTIONS = {
    ("--pass-pipeline",): ("TEXT", "the passes to run: a,b{option=value},gpu.module(c)"),
    ("--mlir-print-ir-before", "--print-ir-before"): (
        "PASS,…",
        "print the IR before these passes, to stderr",
    ),
    ("--mlir-print-ir-after", "--print-ir-after"): ("PASS,…", "print the IR after these passes, to stderr"),
    ("--mlir-print-ir-tree-dir",): ("DIRECTORY", "print IR to files below it, not to stderr"),
    ("--mlir-pass-pipeline-crash-reproducer",): (
        "FILE",
        "where a pass fails or crashes, write its input and the pipeline to FILE",
    ),
}

# Those of `weft-opt` alone.
OUTPUT = {
    "--mlir-elide-elementsattrs-if-larger": ("N", "leave out the numbers of constants of more than N"),
    "--mlir-elide-resource-strings-if-larger": ("N", "leave out resources of more than N characters"),
    "--mlir-pass-statistics-display": ("list|pipeline", "the form of --mlir-pass-statistics"),
    "--output-split-marker": ("MARKER", "the line between the parts of a split file's result"),
    "--irdl-file": ("FILE", "define the dialects in a file of IRDL before the input is read"),
    "--remarks-filter": ("REGEX", "print only the remarks of passes that match"),
}

NAMES = {*SWITCHES, *VALUED_SWITCHES, *chain(*OPTIONS), *OUTPUT, "--help", "--version"}
