"""The terms of the glossary, and words and phrases that no text for readers uses."""

from __future__ import annotations

import re
from dataclasses import dataclass

TERMS = set(
    """operator, workload, target, task, device, device model, device class, template, family, knob, schedule, search space,
    candidate, trial, run, strategy, cost model, search time, final, final time, call time, default, gain, finalist, winner,
    reference, tolerance, check, overflow, lost accuracy, wrong result, warm start, transfer, range, portfolio, partition, part,
    cut, database, record, bundle, library, miss, tier, farm, server, runner, builder, client, epilogue, prologue, prepacking,
    split-K, pipeline stage, double buffering, vector width, unrolling, tile, loop nest, persistent kernel, raster order,
    warp group, workspace, launch""".replace("\n    ", " ").split(", ")
)


@dataclass(frozen=True)
class Banned:
    """``words``: a regular expression that matches whole words in any case. ``instead``: what to write. ``why``: the reason."""

    words: str
    instead: str
    why: str

    @property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(rf"(?<![\w-])(?:{self.words})(?![\w-])", re.IGNORECASE)


NO_NOUN = "no noun says what is meant"
RIDDLE = "readers did not understand it"
INVENTED = "the field has a word"

BANNED = (
    Banned("so many", "the number, with its noun", NO_NOUN),
    Banned(r"(?<!no )such (?!as\b)[a-z]+", "the noun with its property", NO_NOUN),
    Banned("these (?:are|is|go|do|have)|these(?=[.,;:])", "'these' and a noun", NO_NOUN),
    Banned("that's own", "the template's own, the device's own", NO_NOUN),
    Banned("what (?:it has|there is) of", "the noun itself", NO_NOUN),
    Banned("all of it at once", "'tune all of them'", NO_NOUN),
    Banned("(?:where )?that does not do", "'if that is not enough'", RIDDLE),
    Banned("every trial that was wanted", "'all requested trials were run'", RIDDLE),
    Banned("the machine changed meanwhile", "'the machine has become slower since the run began'", RIDDLE),
    Banned("takes another way", "'explores differently'", RIDDLE),
    Banned("more than there (?:is|was)", "'exceeds the limit'", RIDDLE),
    Banned("it is not said who", "'no signing key given'", RIDDLE),
    Banned("by how much work it was", "'most work first'", RIDDLE),
    Banned("what its holder may be", "'role granted by the certificate'", RIDDLE),
    Banned("than chance explains", "'no knob has a statistically clear effect'", RIDDLE),
    Banned("this one, in the search", "'winner, during the search'", RIDDLE),
    Banned("times? over ours|times? / ours", "'speed-up over'", INVENTED),
    Banned("luckiest", "'the fastest'", RIDDLE),
    Banned("all, or of", "'all, or one of'", RIDDLE),
    Banned("is no [A-Z]+=[A-Z]+", "'is not KEY=VALUE'", "it is not English"),
    Banned("anew", "'again'", "it is out of use"),
    Banned("whence|thereof|therein|wherein|hereby|thereby", "'from which', 'of it', 'in it', 'so'", "it is out of use"),
    Banned("foresees?|foreseen|foresaw", "'predicts', 'predicted'", INVENTED),
    Banned("schedule spaces?", "'search space'", INVENTED),
    Banned("calls? chooses?", "'symbolic size', 'symbolic dimension'", INVENTED),
    Banned("copy engines?", "'TMA'", INVENTED),
    Banned("ordinary (?:units|arithmetic)", "'CUDA cores'", INVENTED),
    Banned("walkers?", "'persistent blocks'", INVENTED),
    Banned(
        "report (?:this|it) as a bug|a bug, report", "one thing that the reader can do", "the reader may have caused it"
    ),
)
