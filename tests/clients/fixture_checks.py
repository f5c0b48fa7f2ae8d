"""What happens between a server and its client during and between calls.

Against mpnanny-conformance: what the server asks, reports and announces, what is taken back.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from mcp import Client
from mcp.client.subscriptions import ResourceUpdated
from mcp.types import (
    CallToolResult,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestParams,
    ElicitResult,
    ListRootsResult,
    LoggingMessageNotificationParams,
    Root,
    TextContent,
)

MODERN = "2026-07-28"
WATCHED = "test://watched-resource"
DEADLINE_S = 20.0  # a hang fails; nothing here takes long
# What a user types into any form, by the fields' names.
TYPED = {
    "username": "ada",
    "email": "ada@example.org",
    "name": "Ada",
    "color": "blue",
    "context": "tests",
    "ok": True,
}


class Answers:
    """Answers what a server asks of the client, and keeps what it was told."""

    def __init__(self) -> None:
        self.logged: list[object] = []
        self.methods: list[str] = []

    async def elicit(self, _context: object, params: ElicitRequestParams) -> ElicitResult:
        fields = params.requested_schema["properties"]
        content = {field: TYPED.get(field, "Ada") for field in fields}
        return ElicitResult(action="accept", content=content)

    async def sample(
        self, _context: object, params: CreateMessageRequestParams
    ) -> CreateMessageResult:
        asked = params.messages[0].content
        assert isinstance(asked, TextContent)
        return CreateMessageResult(
            role="assistant",
            model="test",
            content=TextContent(type="text", text=f"heard: {asked.text}"),
        )

    async def roots(self, _context: object) -> ListRootsResult:
        return ListRootsResult(roots=[Root(uri="file:///project", name="project")])

    async def log(self, params: LoggingMessageNotificationParams) -> None:
        self.logged.append(params.data)

    async def message(self, message: object) -> None:
        self.methods.append(getattr(message, "method", ""))

    def arguments(self) -> dict[str, object]:
        """What the Client has to be made with."""
        return {
            "elicitation_callback": self.elicit,
            "sampling_callback": self.sample,
            "list_roots_callback": self.roots,
            "logging_callback": self.log,
            "message_handler": self.message,
        }


Check = Callable[[Client, Answers], Awaitable[None]]
CHECKS: list[Check] = []


def check(function: Check) -> Check:
    CHECKS.append(function)
    return function


def text_of(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")


def is_modern(client: Client) -> bool:
    return client.protocol_version == MODERN


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    end = time.monotonic() + DEADLINE_S
    while not await condition():
        assert time.monotonic() < end, f"{what}: nothing after {DEADLINE_S} s"
        await asyncio.sleep(0.005)


@check
async def the_user_fills_in_a_form(client: Client, _answers: Answers) -> None:
    text = text_of(await client.call_tool("test_elicitation", {"message": "Who are you?"}))
    assert "action=accept" in text and '"username":"ada"' in text, text


@check
async def the_model_is_asked(client: Client, _answers: Answers) -> None:
    text = text_of(await client.call_tool("test_sampling", {"prompt": "Are you there?"}))
    assert "heard: Are you there?" in text, text


@check
async def the_roots_are_asked_for(client: Client, _answers: Answers) -> None:
    text = text_of(await client.call_tool("test_list_roots"))
    assert '1 root(s): ["file:///project"]' in text, text


@check
async def three_things_are_asked_for_at_once(client: Client, _answers: Answers) -> None:
    text = text_of(await client.call_tool("test_input_required_result_multiple_inputs"))
    assert text == "Name: Ada; greeting: heard: Write a greeting.; roots: 1", text


@check
async def two_questions_follow_each_other(client: Client, _answers: Answers) -> None:
    text = text_of(await client.call_tool("test_input_required_result_multi_round"))
    assert text == "Ada likes blue.", text


@check
async def a_prompt_asks_the_user(client: Client, _answers: Answers) -> None:
    prompt = await client.get_prompt("test_input_required_result_prompt")
    assert prompt.messages[0].content.text == "Prompt with context: tests"


@check
async def progress_arrives_while_the_call_runs(client: Client, _answers: Answers) -> None:
    seen: list[float] = []

    async def note(progress: float, _total: float | None, _message: str | None) -> None:
        seen.append(progress)

    await client.call_tool("test_tool_with_progress", progress_callback=note)
    assert seen == [0, 50, 100], seen


@check
async def log_messages_reach_those_who_want_them(client: Client, answers: Answers) -> None:
    wanted = ["Tool execution started", "Tool processing data", "Tool execution completed"]
    answers.logged.clear()
    if is_modern(client):
        await client.call_tool("test_tool_with_logging")
        assert not answers.logged, "a request without a level gets none"
        level = {"io.modelcontextprotocol/logLevel": "info"}
        await client.call_tool("test_tool_with_logging", meta=level)
    else:
        await client.set_logging_level("error")
        await client.call_tool("test_tool_with_logging")
        assert not answers.logged, "they are not serious enough"
        await client.set_logging_level("info")
        await client.call_tool("test_tool_with_logging")
    assert answers.logged == wanted, answers.logged


@check
async def listeners_hear_what_they_asked_for(client: Client, answers: Answers) -> None:
    if is_modern(client):
        uris = [WATCHED, "test://no-such-resource"]
        async with client.listen(resource_subscriptions=uris) as subscription:
            assert subscription.honored.resource_subscriptions == [WATCHED]
            await client.call_tool("test_trigger_tool_change")
            await client.call_tool("test_trigger_resource_update")
            event = await asyncio.wait_for(anext(subscription), DEADLINE_S)
        assert event == ResourceUpdated(uri=WATCHED), event
        return
    method = "notifications/resources/updated"
    answers.methods.clear()
    await client.subscribe_resource(WATCHED)

    async def heard() -> bool:
        return method in answers.methods

    await client.call_tool("test_trigger_resource_update")
    await until(heard, method)
    await client.unsubscribe_resource(WATCHED)
    await client.call_tool("test_trigger_resource_update")
    await client.call_tool("test_tool_with_progress")  # takes a while: a stray notice would arrive
    assert answers.methods.count(method) == 1, answers.methods


@check
async def a_call_that_is_taken_back_stops(client: Client, _answers: Answers) -> None:
    async def count() -> int:
        return int(text_of(await client.call_tool("test_count_cancelled")))

    before = await count()
    running = asyncio.Event()

    async def note(_progress: float, _total: float | None, _message: str | None) -> None:
        running.set()

    call = asyncio.ensure_future(
        client.call_tool("test_wait_until_cancelled", progress_callback=note)
    )
    await asyncio.wait_for(running.wait(), DEADLINE_S)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)

    async def stopped() -> bool:
        return await count() == before + 1

    await until(stopped, "the handler never heard of it")
