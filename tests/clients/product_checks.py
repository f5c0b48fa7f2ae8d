"""What every official Python client has to see of mpnanny, whatever its mode and transport."""

import asyncio
import pathlib
from collections.abc import Awaitable, Callable

from mcp import Client, MCPError
from mcp.types import CallToolResult, PromptReference, ResourceTemplateReference

HERE = pathlib.Path(__file__).resolve().parent
SCRIPT = HERE / "training_script.py"
MODERN = "2026-07-28"
TOOLS = {
    "static_check",
    "search_knowledge",
    "list_runs",
    "run_summary",
    "query_alerts",
    "diagnose_run",
}

Check = Callable[[Client], Awaitable[None]]
CHECKS: list[Check] = []


def check(function: Check) -> Check:
    CHECKS.append(function)
    return function


def text_of(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")


@check
async def the_server_says_who_it_is(client: Client) -> None:
    assert client.server_info is not None and client.server_info.name == "mpnanny", (
        client.server_info
    )
    assert client.instructions and len(client.instructions) <= 2048
    assert client.server_capabilities.tools is not None
    assert client.server_capabilities.completions is not None


@check
async def tools_are_listed_with_schemas_and_read_only(client: Client) -> None:
    tools = (await client.list_tools()).tools
    assert TOOLS <= {tool.name for tool in tools}, [tool.name for tool in tools]
    for tool in tools:
        assert tool.output_schema and tool.input_schema["additionalProperties"] is False
        assert tool.annotations is not None and tool.annotations.read_only_hint is True


@check
async def static_check_finds_the_clip_before_unscale(client: Client) -> None:
    result = await client.call_tool("static_check", {"paths": [str(SCRIPT)]})
    assert not result.is_error, text_of(result)
    findings = result.structured_content["findings"]
    rules = {finding["rule"]: finding for finding in findings}
    assert "clip-before-unscale" in rules, list(rules)
    lines = SCRIPT.read_text().splitlines()
    assert "clip_grad_norm_" in lines[rules["clip-before-unscale"]["line"] - 1]
    assert "clip-before-unscale" in text_of(result)


@check
async def static_check_takes_code_as_text(client: Client) -> None:
    result = await client.call_tool("static_check", {"code": SCRIPT.read_text()})
    assert not result.is_error, text_of(result)
    assert any(f["rule"] == "clip-before-unscale" for f in result.structured_content["findings"])


@check
async def search_knowledge_answers_in_english_and_chinese(client: Client) -> None:
    for query in ("loss becomes nan after a few steps", "梯度 溢出"):
        result = await client.call_tool("search_knowledge", {"query": query})
        assert not result.is_error, text_of(result)
        found = result.structured_content["results"]
        assert found and all(item["uri"].startswith("mpnanny://knowledge/") for item in found)


@check
async def list_runs_of_a_folder_without_runs_says_so(client: Client) -> None:
    result = await client.call_tool("list_runs", {"path": str(HERE)})
    assert not result.is_error, text_of(result)
    assert result.structured_content["runs"] == [] and result.structured_content["total"] == 0
    assert text_of(result)


@check
async def a_case_is_read_as_a_resource(client: Client) -> None:
    result = await client.call_tool("search_knowledge", {"query": "clip before unscale"})
    uri = result.structured_content["results"][0]["uri"]
    contents = (await client.read_resource(uri)).contents
    assert len(contents) == 1 and "## Fix" in contents[0].text, contents
    # Few are listed: the page that names all cases stands for them.
    listed = {str(resource.uri) for resource in (await client.list_resources()).resources}
    index = "mpnanny://knowledge/index"
    assert index in listed and len(listed) < 30, listed
    named = (await client.read_resource(index)).contents[0].text
    assert f"`{str(uri).rsplit('/', 1)[1]}`" in named


@check
async def resource_templates_are_listed(client: Client) -> None:
    templates = (await client.list_resource_templates()).resource_templates
    uris = {template.uri_template for template in templates}
    assert {"mpnanny://knowledge/{case}", "mpnanny://rules/{rule}"} <= uris, uris


@check
async def a_prompt_is_filled_in(client: Client) -> None:
    prompts = {prompt.name for prompt in (await client.list_prompts()).prompts}
    assert {"review_model_code", "explain_nan"} <= prompts, prompts
    prompt = await client.get_prompt("review_model_code", {"path": str(SCRIPT)})
    assert SCRIPT.name in prompt.messages[0].content.text


@check
async def arguments_are_completed(client: Client) -> None:
    template = ResourceTemplateReference(uri="mpnanny://knowledge/{case}")
    completion = (await client.complete(template, {"name": "case", "value": "clip"})).completion
    assert completion.values and all(value.startswith("clip") for value in completion.values)
    prompt = PromptReference(name="review_model_code")
    completion = (
        await client.complete(prompt, {"name": "path", "value": str(SCRIPT)[:-3]})
    ).completion
    assert str(SCRIPT) in completion.values, completion.values


@check
async def a_wrong_argument_is_an_error_the_model_can_mend(client: Client) -> None:
    result = await client.call_tool("search_knowledge", {"quer": "nan"})
    assert result.is_error and "query" in text_of(result), text_of(result)


@check
async def a_path_outside_the_roots_is_refused(client: Client) -> None:
    result = await client.call_tool("static_check", {"paths": ["/etc/hostname"]})
    assert result.is_error and "root" in text_of(result), text_of(result)


async def expect_code(call: Awaitable[object], codes: set[int]) -> None:
    try:
        await call
    except MCPError as error:
        assert error.code in codes, error
    else:
        raise AssertionError("no error")


@check
async def what_does_not_exist_is_a_protocol_error(client: Client) -> None:
    legacy = client.protocol_version != MODERN
    await expect_code(client.call_tool("no_such_tool", {}), {-32602})
    await expect_code(client.get_prompt("no_such_prompt"), {-32602})
    missing = client.read_resource("mpnanny://knowledge/no-such-case")
    await expect_code(missing, {-32002} if legacy else {-32602})


@check
async def calls_at_the_same_time_get_their_own_answers(client: Client) -> None:
    queries = [f"loss nan {number}" for number in range(20)]
    results = await asyncio.gather(
        *(client.call_tool("search_knowledge", {"query": query}) for query in queries),
        *(client.call_tool("list_runs", {"path": str(HERE)}) for _ in range(20)),
    )
    assert all(not result.is_error for result in results)
    assert all("results" in result.structured_content for result in results[:20])
    assert all("runs" in result.structured_content for result in results[20:])
