"""A judge's request and the structured answer to it, in the model library's terms.

Imports the library, so this module is itself imported only when a model is first needed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pydantic_ai.messages import ModelRequest, SystemPromptPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.tools import ToolDefinition

from mst.judges import strictjson
from mst.judges.endpoints import ModelOptions
from mst.judges.prompts import Prompt
from mst.model.transcript import Usage
from mst.providers.attempts import ModelFault
from mst.providers.library import Connection, usage_of

ANSWER_CHARACTERS = 262_144


@dataclass(frozen=True)
class Response:
    """An answer as the library read it."""

    raw: Any
    output: str

    @property
    def usage(self) -> Usage | None:
        """Tokens; None when the provider did not say."""
        return usage_of(self.raw)

    def value(self) -> dict[str, Any]:
        """The structured answer.

        Raises:
            ModelFault: the model declined, ended early, or answered in another form.
        """
        return _value(self.raw, self.output)


async def request(
    connection: Connection, prompt: Prompt, schema: dict[str, Any], options: ModelOptions, timeout_s: float
) -> Response:
    """One request, once.

    Raises:
        ModelFault: no answer.
    """
    system = prompt.system
    if options.output == "prompted":
        system += f"\n\nAnswer with one JSON object and nothing else, valid under this schema:\n{json.dumps(schema)}"
    messages = [ModelRequest(parts=[SystemPromptPart(system), UserPromptPart(prompt.user)])]
    settings: dict[str, Any] = {"max_tokens": options.max_tokens}
    if options.temperature is not None:
        settings["temperature"] = options.temperature
    raw = await connection.send(messages, _parameters(schema, options.output), settings, timeout_s=timeout_s)
    return Response(raw, options.output)


def _value(response: Any, output: str) -> dict[str, Any]:
    """The structured answer of a response.

    Raises:
        ModelFault: the model declined, ended early, or answered in another form.
    """
    calls = [part for part in response.parts if part.part_kind == "tool-call"]
    text = "".join(part.content for part in response.parts if part.part_kind == "text")
    if response.finish_reason == "content_filter":
        raise ModelFault(f"the model declined to judge{': ' + text if text else ''}", "refusal")
    if response.finish_reason == "length":
        raise ModelFault("the answer ended at max_tokens; raise it", "answer")
    if output == "tool" and not calls:
        raise ModelFault(f"the model did not answer in the form asked for, but: {text[:200]!r}", "answer")
    if output == "tool" and any(call.args != calls[0].args for call in calls):
        raise ModelFault(f"the model gave {len(calls)} verdicts that differ", "answer")
    found: Any = calls[0].args if output == "tool" else _unfenced(text)
    if isinstance(found, str) and len(found) > ANSWER_CHARACTERS:
        raise ModelFault(f"the model's answer has more than {ANSWER_CHARACTERS} characters", "answer")
    try:
        if isinstance(found, str):
            found = strictjson.loads(found)
        strictjson.check(found)
    except ValueError as error:
        raise ModelFault(f"the model's answer is {error}", "answer") from error
    if not isinstance(found, dict):
        raise ModelFault("the model's answer is no JSON object", "answer")
    return found


def _unfenced(text: str) -> str:
    """JSON out of the code fence that models like to put around it."""
    stripped = text.strip()
    if stripped.startswith("```") and stripped.endswith("```"):
        return stripped[3:-3].removeprefix("json").strip()
    return stripped


def _parameters(schema: dict[str, Any], output: str) -> Any:
    if output == "tool":
        tool = ToolDefinition(
            name="verdict", parameters_json_schema=schema, description="Give your verdict.", kind="output"
        )
        return ModelRequestParameters(output_mode="tool", output_tools=[tool], allow_text_output=False)
    if output == "native":
        definition = OutputObjectDefinition(json_schema=schema, name="verdict")
        return ModelRequestParameters(output_mode="native", output_object=definition)
    return ModelRequestParameters(output_mode="text")
