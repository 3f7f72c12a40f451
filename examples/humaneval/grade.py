"""Does the answer pass the problem's tests? Runs in the variant's sandbox: what a model wrote is nobody's friend."""

import re
import secrets
import sys

FENCE = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.DOTALL)


def passes(ctx):
    """The program of the answer, then the tests, then a word that only a run to the end can say."""
    expected = ctx.case["expected"]
    code = program(ctx.final_text, ctx.case["input"], expected["entry_point"])
    if code is None:
        return {"pass": False, "details": "no answer"}
    word = secrets.token_hex(16)
    script = ctx.workspace / f"run-{secrets.token_hex(4)}.py"
    script.write_text(
        f"{code}\n\n{expected['test']}\n\ncheck({expected['entry_point']})\nimport sys\nprint(sys.argv[1])\n",
        encoding="utf-8",
    )
    ran = ctx.exec([sys.executable, "-I", script.name, word], timeout_s=20)
    if ran.timed_out:
        return {"pass": False, "details": "the tests did not end within 20 s"}
    passed = ran.exit_code == 0 and ran.stdout.strip().endswith(word)
    last = ran.stderr.strip().splitlines()[-1:] or [f"exit code {ran.exit_code}"]
    return {"pass": passed, "details": "all tests passed" if passed else last[0][:200]}


def program(answer, prompt, entry_point):
    """The code of an answer: in a fence or plain, whole or only the body that continues the prompt."""
    fenced = FENCE.findall(answer)
    code = max(fenced, key=len) if fenced else answer
    if not code.strip():
        return None
    return code if re.search(rf"^def {re.escape(entry_point)}\b", code, re.MULTILINE) else prompt + code
