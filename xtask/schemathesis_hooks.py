"""Settings of Schemathesis beyond the document; used by `cargo xtask schemathesis`."""

import schemathesis

# Claims that wait do so for a moment only: a minute each would be the whole run.
WAIT_MS_MAX = 20


def is_negative(case):
    """Whether the request was made not to fit the document."""
    return case.meta is not None and case.meta.generation.mode.is_negative


def whole(value):
    """To JSON Schema 1.0 is whole, to the server it is not: such a request would never get far."""
    if isinstance(value, dict):
        return {name: whole(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [whole(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


@schemathesis.hook
def before_call(_context, case, **_kwargs):
    """Shortens the waits that the document allows; those that it does not stay as they are."""
    if not isinstance(case.body, dict):
        return
    body = case.body if is_negative(case) else whole(case.body)
    wait_ms = body.get("wait_ms")
    if isinstance(wait_ms, int) and WAIT_MS_MAX < wait_ms <= 60_000:
        body = {**body, "wait_ms": WAIT_MS_MAX}
    case.body = body


@schemathesis.check
def a_bad_item_fails_alone(_context, response, case):
    """A batch with something bad in it answers so for that item, if not for the whole."""
    if not is_negative(case) or response.status_code != 200 or not isinstance(case.body, dict):
        return
    answers = response.json().get("items")
    if isinstance(answers, list) and answers:
        assert not all(item["ok"] for item in answers), "a bad item was accepted"
