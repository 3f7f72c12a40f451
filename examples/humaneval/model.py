"""The program under test: asks a model with an OpenAI-compatible API for one completion."""

import json
import os
import urllib.request

SYSTEM = "Complete the Python function. Answer with the whole function and its imports in one code block."


def complete(prompt, context):
    """One request; what the model says is the answer."""
    body = {
        "model": context["model"],
        "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": prompt}],
    }
    request = urllib.request.Request(
        os.environ["BASE_URL"].rstrip("/") + "/chat/completions",
        data=json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {os.environ['API_KEY']}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=120) as response:
        found = json.load(response)
    used = found.get("usage") or {}
    return {
        "final_text": found["choices"][0]["message"]["content"] or "",
        "usage": {"input_tokens": used.get("prompt_tokens"), "output_tokens": used.get("completion_tokens")},
    }
