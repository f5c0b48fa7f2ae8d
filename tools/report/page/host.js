"use strict";
// The page as an MCP App (extension io.modelcontextprotocol/ui, 2026-01-26): it speaks JSON-RPC with the client that embeds it, gets the
// tool's answer from it, and asks it for the data of the run that the answer is about.
const FIRST = { diagnose_run: ["diagnosis", "curves", "heat"], run_summary: ["curves", "alerts"], query_stats: ["asked"], compare_runs: ["diagnosis", "curves"] };
const waiting = new Map();
let lastId = 0;
function send(message) { window.parent.postMessage({ jsonrpc: "2.0", ...message }, "*"); }
function ask(method, params) {
  return new Promise((resolve, reject) => { waiting.set(++lastId, { resolve, reject }); send({ id: lastId, method, params }); });
}
function takeContext(context = {}) {
  if (context.theme) setTheme(context.theme);
  if (context.locale) language = context.locale.toLowerCase().startsWith("zh") ? "zh" : "en";
}
const NOTICES = {
  "ui/notifications/tool-result": (result) => takeResult(result),
  "ui/notifications/tool-cancelled": () => say(t("cancelled")),
  "ui/notifications/host-context-changed": (context) => { takeContext(context); if (data.runs.length) redraw(); },
};
function listen(event) {
  const message = event.data;
  if (event.source !== window.parent || message?.jsonrpc !== "2.0") return;
  if (message.method === undefined) {
    const { resolve, reject } = waiting.get(message.id) ?? {};
    waiting.delete(message.id);
    if (message.error) reject?.(new Error(message.error.message)); else resolve?.(message.result);
  } else if (message.id === undefined) {
    NOTICES[message.method]?.(message.params ?? {});
  } else if (message.method === "ui/resource-teardown" || message.method === "ping") {
    send({ id: message.id, result: {} });
  } else {
    send({ id: message.id, error: { code: -32601, message: "The view does not know " + message.method } });
  }
}
// The answer alone, which still tells the most.
function showAnswer(name, answer, handles) {
  data = { ...given, runs: [], asked: answer };
  drawTitles(answer.name ?? handles.join(" | "));
  const shown = name === "query_stats" ? "asked" : "diagnosis";
  for (const section of Object.keys(SECTIONS)) place(section).parentElement.hidden = section !== shown;
  if (shown === "asked") return drawAsked();
  put("diagnosis", el("p", {}, answer.headline ?? answer.mend?.text ?? ""), el("ul", {}, ...(answer.reasons ?? []).map((reason) => el("li", {}, reason))));
}
let tool = "", canRead = false;
async function takeResult(result) {
  const answer = result.structuredContent;
  if (result.isError || !answer) return say(result.content?.find((part) => part.type === "text")?.text ?? t("none"));
  const name = tool || (answer.series ? "query_stats" : answer.hypotheses ? "diagnose_run" : answer.first_difference !== undefined ? "compare_runs" : "run_summary");
  const handles = name === "compare_runs" ? [answer.a?.run, answer.b?.run].filter(Boolean) : [answer.run].filter(Boolean);
  say(t("loading"));
  try {
    if (!canRead || !handles.length) throw new Error(t("noData"));
    const runs = [];
    for (const handle of new Set(handles)) {
      const read = await ask("resources/read", { uri: `mpnanny://runs/${encodeURIComponent(handle)}/view` });
      runs.push(JSON.parse(read.contents[0].text));
    }
    show(runs, { shown: FIRST[name] ?? null, asked: name === "query_stats" ? answer : null });
    say("");
    const whole = el("button", { type: "button", onclick: () => { data.shown = null; draw(); whole.remove(); } }, t("wholePage"));
    if (data.shown) place("settings").append(whole);
  } catch (error) {
    say(error.message);
    showAnswer(name, answer, handles);
  }
}
async function startInHost() {
  window.addEventListener("message", listen);
  say(t("loading"));
  const size = new ResizeObserver(() => send({ method: "ui/notifications/size-changed", params: { height: Math.ceil(document.documentElement.getBoundingClientRect().height) } }));
  const host = await ask("ui/initialize", { appInfo: { name: "mpnanny", version: given.version }, appCapabilities: { availableDisplayModes: ["inline", "fullscreen"] }, protocolVersion: "2026-01-26" });
  takeContext(host.hostContext);
  tool = host.hostContext?.toolInfo?.tool?.name ?? "";
  canRead = Boolean(host.hostCapabilities?.serverResources);
  document.body.classList.add("app");
  send({ method: "ui/notifications/initialized", params: {} });
  size.observe(document.documentElement);
}
