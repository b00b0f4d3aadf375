"""The functions that captured code calls in place of loops, branches and conditions. They are imported when
such code first runs: it needs MLIR, which a compiled kernel doesn't.
"""


def __getattr__(name: str) -> object:
    if name.startswith("__"):  # such as __warningregistry__, which unittest and others ask all modules for
        raise AttributeError(f"{__name__} has no '{name}'")
    from weft.language.capture import conditions, control, mutation

    homes = (conditions, control, mutation)
    for home in homes:
        if name in vars(home):
            globals()[name] = vars(home)[name]  # so that the next access doesn't call this function
            return vars(home)[name]
    raise AttributeError(f"{__name__} has no '{name}'")
