"""A dynamic loss scale without a floor: halved at every step it is 0 after 1091 of them, and the
division by it ends the run. A bound at 1 ends it after 17.
"""

Numbers = dict[str, float | bool]


def run(floor: float) -> Numbers:
    scale = 65536.0
    after_100 = 0.0
    steps = 0
    divided_by_zero = False
    while steps < 2000:
        steps += 1
        try:
            _ = 1.0 / scale  # as unscaling does
        except ZeroDivisionError:
            divided_by_zero = True
            break
        if scale < floor:
            break  # stopped, with the reason told
        scale /= 2  # the gradients were not finite in this step either
        if steps == 100:
            after_100 = scale
    return {
        "scale_after_100_steps": after_100,
        "steps": steps,
        "last_scale": scale,
        "failed": divided_by_zero,
    }


def broken() -> Numbers:
    return run(floor=0.0)


def fixed() -> Numbers:
    return run(floor=1.0)
