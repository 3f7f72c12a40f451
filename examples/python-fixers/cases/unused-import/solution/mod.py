"""Settings in JSON, with private keys left out."""

import json
import re


def public(text):
    return {key: value for key, value in json.loads(text).items() if not re.match("_", key)}
