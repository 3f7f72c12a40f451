"""A model that is no model: it speaks OpenAI's dialect and does what is written here, so that the example needs no key.

It looks a price up when its system prompt says so, and guesses otherwise.
"""

import argparse
import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def answer(messages):
    """The next message of the assistant in a conversation."""
    told = any(
        "look each one up" in text(message) for message in messages if message["role"] in ("system", "developer")
    )
    asked = next(text(message) for message in reversed(messages) if message["role"] == "user")
    thing = re.search(r"portions? of (\w+)", asked)
    if thing is None:
        return {"role": "assistant", "content": "ready"}
    found = [text(message) for message in messages if message["role"] == "tool"]
    if found:
        each = int(re.search(r"\d+", found[-1]).group())
        return {"role": "assistant", "content": f"That is {each * (2 if 'two' in asked else 1)}"}
    if not told:
        return {"role": "assistant", "content": "About 5 crowns, I should think."}
    call = {"name": "price", "arguments": json.dumps({"thing": thing.group(1)})}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": f"call-{thing.group(1)}", "type": "function", "function": call}],
    }


def text(message):
    """A message's words, whether they come as one text or in parts."""
    content = message.get("content") or ""
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)


class Model(BaseHTTPRequestHandler):
    """Answers `POST /v1/chat/completions`."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        message = answer(asked["messages"])
        reason = "tool_calls" if message.get("tool_calls") else "stop"
        used = sum(len(text(one)) for one in asked["messages"]) // 4
        body = json.dumps(
            {
                "id": "scripted",
                "object": "chat.completion",
                "created": 0,
                "model": asked["model"],
                "choices": [{"index": 0, "message": message, "finish_reason": reason}],
                "usage": {"prompt_tokens": used, "completion_tokens": 12, "total_tokens": used + 12},
            }
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Silent: what was asked stands in the transcripts."""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8765)
    server = ThreadingHTTPServer(("127.0.0.1", parser.parse_args().port), Model)
    print(f"listening on http://127.0.0.1:{server.server_port}/v1", flush=True)
    server.serve_forever()
