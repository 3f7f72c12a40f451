"""The named rubrics: what is asked, and what each step of the scale means."""

from __future__ import annotations

SCALE = "Use one of 0, 0.25, 0.5, 0.75 and 1."

RUBRICS: dict[str, str] = {
    "correctness": """\
Is what the response says and does right? Compare it with the reference where there is one; wording does not matter.
1: everything is right. 0.75: right but for a detail that changes nothing. 0.5: right in part, or right with an error
that matters. 0.25: mostly wrong, with something right in it. 0: wrong, or no answer to the question.""",
    "completeness": """\
Does the response cover everything that was asked for? Judge coverage, not whether each part is right.
1: every part of the task is dealt with. 0.75: a small part is missing. 0.5: about half is there. 0.25: little is there.
0: nothing that was asked for.""",
    "groundedness": """\
Is every claim of the response supported by what it was given: the task, the reference, the output of its tools?
1: every claim is supported. 0.75: one unimportant claim is not. 0.5: some claims are not. 0.25: most are not. 0: it is
made up, or contradicts its sources.""",
    "instruction-following": """\
Does the response do what the task says, in the form that it says: format, length, language, order, what to leave out?
1: every instruction is followed. 0.75: one small slip. 0.5: an instruction that matters is missed. 0.25: most are
missed. 0: the instructions are ignored.""",
    "conciseness": """\
Is the response as short as it can be while it still does its task? Leaving out what was asked for is no virtue.
1: nothing could go. 0.75: a little could go. 0.5: clearly longer than needed. 0.25: mostly padding, or repeated.
0: what was asked for is drowned.""",
}


def rubric_text(name_or_text: str) -> str:
    """The text of a named rubric, or a text that is a rubric itself."""
    return RUBRICS.get(name_or_text, name_or_text)
