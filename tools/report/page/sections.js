"use strict";
// The sections of the page, each drawn from `data`. What is chosen (step, layer, figure) links them.
let data = { runs: [] };
const chosen = { step: null, map: 0, rankMap: 0, filter: "", rows: ROWS_AT_ONCE, layer: null, kind: "activation", at: null, format: "FP16", log: new Set(["loss_scale"]) };
let charts = [], histogramCharts = [], askedChart = null;
const place = (id) => document.getElementById(id);
function put(id, ...children) { place(id).replaceChildren(...children.filter((each) => each !== null && each !== undefined)); }
function choice(label, options, value, onchange) {
  return el("label", {}, label + " ", el("select", { onchange: (event) => onchange(event.target.value) },
    ...options.map(([key, text]) => el("option", { value: key, selected: String(key) === String(value) }, text))));
}
function theme() { return document.documentElement.dataset.theme ?? "auto"; }
function setTheme(value) { if (value === "auto") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = value; }
// Whether the axis of that curve is logarithmic.
function logBox(key, onchange) {
  return el("label", {}, el("input", { type: "checkbox", checked: chosen.log.has(key),
    onchange: (event) => { if (event.target.checked) chosen.log.add(key); else chosen.log.delete(key); onchange(); } }), " " + t("log"));
}
function stepButton(step, words = t("nthStep", { n: step })) {
  return el("button", { class: "step", type: "button", "data-step": step, "aria-current": chosen.step === step ? "step" : null,
    onclick: () => { choose(step); place("curves").scrollIntoView({ block: "nearest" }); } }, words);
}
// A sentence in which every "step 12" or "第 12 步" leads to that step of the curves.
function linked(text) {
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(/\bstep (\d+)|第 (\d+) 步/g)) {
    parts.push(text.slice(end, found.index), stepButton(Number(found[1] ?? found[2]), found[0]));
    end = found.index + found[0].length;
  }
  return el("span", {}, ...parts, text.slice(end));
}
// What query_stats answered, in a client that shows this page beside the answer.
function drawAsked() {
  const { metric, unit, series } = data.asked;
  const drawn = series.filter((each) => each.points?.length).slice(0, MOST_LINES);
  if (!drawn.length) return put("asked", el("p", {}, t("none")));
  const title = unit && unit !== "value" ? `${metric} (${unit})` : metric;
  const name = (each) => [each.layer, each.kind].filter(Boolean).join(", ");
  const canvas = el("canvas", { role: "img", "aria-label": `${title}: ${drawn.map(name).join("; ")}`.slice(0, 400) });
  const log = logBox("asked", drawAsked);
  askedChart?.destroy();
  put("asked", el("h3", {}, title), el("div", { class: "chart" }, canvas), el("div", { class: "controls no-print" }, log),
    series.length > drawn.length ? el("p", { class: "soft" }, t("shownOf", { n: drawn.length, total: series.length })) : null,
    tableOf([t("layer"), t("step"), title], drawn.flatMap((each) => each.points.map(([step, value]) => [name(each), step, value])), 200));
  askedChart = drawSeries(canvas, drawn.map((each) => ({ name: name(each), points: each.points })), title, chosen.log.has("asked"));
}
function drawTitles(name) {
  document.title = brief(`mpnanny: ${name}`, 120);
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  for (const title of document.querySelectorAll("[data-word]")) title.textContent = t(title.dataset.word);
  put("name", name);
}
function drawHeader() {
  const { summary, diagnosis, run } = data.runs[0];
  drawTitles(summary.name || run);
  // Healthy numbers of a training that failed are not called a healthy run.
  const cut = diagnosis.verdict === "healthy" && ["exception", "killed"].includes(summary.status);
  put("status", el("span", { class: diagnosis.verdict }, t("verdict_" + (cut ? "numbers_healthy" : diagnosis.verdict))), " · ",
    t("status", { status: t("status_" + summary.status), steps: summary.steps, first: shown(summary.loss.first), last: shown(summary.loss.last), precision: summary.precision ?? "" }),
    data.live ? ` · ${t("live")}` : "", el("br"), el("span", { class: "soft" }, data.runs.map((each) => each.run).join("  |  ")));
  put("settings", el("div", { class: "controls" },
    choice(t("language"), [["en", "English"], ["zh", "中文"]], language, (value) => { language = value; redraw(); }),
    choice(t("theme"), ["auto", "light", "dark"].map((each) => [each, t(each)]), theme(),
      (value) => { setTheme(value); redraw(); })));
  put("made-by", t("madeBy", { version: data.version }));
}
// Names by their dots, only those that have a part in the failure.
function tree(names, badge) {
  const root = new Map();
  for (const name of names) {
    let level = root;
    for (const part of name.split(".")) { if (!level.has(part)) level.set(part, new Map()); level = level.get(part); }
  }
  const list = (level, prefix) => el("ul", { class: "tree" }, ...[...level].map(([part, below]) => {
    const name = prefix ? `${prefix}.${part}` : part;
    return el("li", {}, names.includes(name) ? el("strong", {}, part || "(model)") : part, badge(name), below.size ? list(below, name) : null);
  }));
  return list(root, "");
}
function chain(firstBad) {
  if (!firstBad || !firstBad.layer) return null;
  const carriers = (firstBad.carriers ?? []).map((each) => (typeof each === "string" ? each : each.layer)).filter(Boolean);
  const names = [firstBad.layer, ...carriers.filter((name) => name !== firstBad.layer)];
  return el("div", {}, el("h3", {}, t("chain")), tree(names, (name) => {
    if (name === firstBad.layer) return el("span", { class: "broken" }, ` ← ${t("origin")}${firstBad.source ? `, ${firstBad.source}` : ""}`);
    return carriers.includes(name) ? el("span", { class: "soft" }, ` ← ${t("carrier")}`) : "";
  }));
}
// The diagnosis with its sentences in the reader's language; what has none in it stays in English.
function worded(diagnosis) {
  const words = diagnosis[language];
  if (!words) return diagnosis;
  return { ...diagnosis, ...words, first_bad: diagnosis.first_bad ? { ...diagnosis.first_bad, ...words.first_bad } : diagnosis.first_bad,
    hypotheses: (diagnosis.hypotheses ?? []).map((cause, at) => ({ ...cause, ...words.hypotheses?.[at] })) };
}
function drawDiagnosis() {
  const parts = [];
  for (const run of data.runs) {
    const diagnosis = worded(run.diagnosis);
    if (data.runs.length > 1) parts.push(el("h3", {}, `${data.runs.indexOf(run) + 1} ${run.summary.name} (${run.run})`));
    parts.push(el("p", { class: diagnosis.verdict }, linked(diagnosis.headline ?? t("verdict_" + diagnosis.verdict))));
    const first = diagnosis.first_bad;
    if (first && first.step !== null && first.step !== undefined) {
      parts.push(el("p", {}, t("firstBad"), " ", stepButton(first.step), `: ${[first.phase ? t(first.phase) : "", first.layer, first.what, first.source].filter(Boolean).join(" · ")}`));
      parts.push(chain(first));
    }
    for (const cause of diagnosis.hypotheses ?? []) {
      const list = (title, items) => items?.length ? el("div", {}, el("strong", {}, title), el("ul", {}, ...items.map((item) => el("li", {}, linked(item))))) : null;
      parts.push(el("div", { class: "card" }, el("h3", {}, cause.title, " ", el("span", { class: "soft" }, t(cause.basis ?? "measured") + ", " + t("confidence", { p: Math.round(100 * cause.confidence) }))),
        list(t("evidence"), cause.evidence), list(t("against"), cause.against), cause.fix ? el("p", {}, el("strong", {}, t("fix") + ": "), cause.fix) : null));
    }
    if (diagnosis.next_measurement) parts.push(el("p", { class: "lines" }, el("strong", {}, t("next") + ": "), linked(diagnosis.next_measurement)));
    if (diagnosis.limits?.length) parts.push(el("details", {}, el("summary", {}, t("limits")), el("ul", {}, ...diagnosis.limits.map((each) => el("li", {}, each)))));
  }
  put("diagnosis", ...parts);
}
function drawCurves() {
  for (const chart of charts) chart.destroy();
  charts = [];
  const metrics = ["loss", "grad_norm", "loss_scale", "lr"].filter((metric) => data.runs.some((run) => run.course.curves?.[metric]));
  if (!metrics.length) return put("curves", el("p", {}, t("none")));
  const boxes = metrics.map((metric) => {
    const canvas = el("canvas", { role: "img", "aria-label": `${t(metric)}: ${t("steps", { n: data.runs[0].course.steps })}` });
    const log = logBox(metric, drawCurves);
    const rows = data.runs.flatMap((run) => run.course.curves?.[metric] ? run.course.step.map((step, at) => [step, run.course.end[at], ...["least", "greatest", "last"].map((key) => run.course.curves[metric][key][at])]) : []);
    return { metric, canvas, box: el("div", {}, el("h3", {}, t(metric)), el("div", { class: "chart" }, canvas),
      el("div", { class: "controls no-print" }, log), tableOf([t("step"), "–", "min", "max", t(metric)], rows)) };
  });
  put("curves", data.runs.length > 1 ? el("p", { class: "soft" }, t("overlaid", { name: `2 ${data.runs[1].summary.name}`, run: data.runs[1].run })) : null,
    el("div", { class: "charts" }, ...boxes.map((each) => each.box)));
  charts = boxes.map((each) => drawCurve(each.canvas, each.metric, data.runs, chosen.log.has(each.metric), choose));
  if (chosen.step !== null) markStep(charts, chosen.step);
}
function drawHeat() {
  const heat = data.runs[0].heat;
  if (!heat || !heat.maps.length) return put("heat", el("p", {}, t("none")));
  const map = heat.maps[Math.min(chosen.map, heat.maps.length - 1)];
  const fits = heat.layers.map((name, row) => row).filter((row) => heat.layers[row].toLowerCase().includes(chosen.filter.toLowerCase()) && map.rows[row].some((cell) => cell !== null));
  const bad = firstBadCell(heat, data.runs[0].diagnosis.first_bad);
  const rows = fits.slice(0, chosen.rows);
  if (bad && fits.includes(bad.row) && !rows.includes(bad.row)) rows.push(bad.row);
  const filter = el("input", { type: "search", value: chosen.filter, onchange: (event) => { chosen.filter = event.target.value; chosen.rows = ROWS_AT_ONCE; drawHeat(); } });
  const table = heatTable(heat, map, rows, bad, (row, column, cell) => {
    for (const other of place("heat").querySelectorAll("td.chosen")) other.classList.remove("chosen");
    cell.classList.add("chosen");
    put("cell", cell.getAttribute("aria-label"));
    chosen.layer = heat.layers[row];
    chosen.at = heat.last_steps[column];
    choose(heat.first_steps[column]);
    drawHistogramSection();
  });
  put("heat", el("div", { class: "controls no-print" },
    choice(t("figure"), heat.maps.map((each, at) => [at, t("of", { kind: t(each.kind), figure: t(each.figure) })]), chosen.map, (value) => { chosen.map = Number(value); drawHeat(); }),
    el("label", {}, t("filter") + " ", filter), el("span", { class: "soft" }, t("keys"))),
  heatLegend(map), el("p", { class: "soft" }, t("samples", { n: heat.samples_read })), el("p", { id: "cell", "aria-live": "polite" }), el("div", { class: "scroll" }, table),
  fits.length > rows.length ? el("button", { type: "button", class: "no-print", onclick: () => { chosen.rows = fits.length; drawHeat(); } }, t("more", { n: fits.length - rows.length })) : null,
  heat.layers_left_out ? el("p", {}, t("leftOut", { n: heat.layers_left_out })) : null);
}
// Ranks × steps: by how much each rank's figure lies apart from the ranks' median.
function drawRanks() {
  const ranks = data.runs[0].ranks;
  const map = ranks.maps[Math.min(chosen.rankMap, ranks.maps.length - 1)];
  const rows = ranks.layers.map((name, row) => row);
  const table = heatTable(ranks, map, rows, null, (row, column, cell) => {
    put("rank-cell", cell.getAttribute("aria-label"));
    choose(ranks.first_steps[column]);
  });
  put("ranks", el("div", { class: "controls no-print" },
    choice(t("figure"), ranks.maps.map((each, at) => [at, t(each.kind)]), chosen.rankMap, (value) => { chosen.rankMap = Number(value); drawRanks(); }),
    el("span", { class: "soft" }, t("keys"))),
  heatLegend(map), el("p", { class: "soft" }, t("apartWords")), el("p", { id: "rank-cell", "aria-live": "polite" }), el("div", { class: "scroll" }, table),
  ranks.layers_left_out ? el("p", {}, t("ranksLeftOut", { n: ranks.layers_left_out })) : null);
}
function drawHistogramSection() {
  for (const chart of histogramCharts) chart.destroy();
  histogramCharts = [];
  const all = data.runs[0].histograms ?? [];
  if (!all.length) return put("histogram", el("p", {}, t("none")));
  const layers = [...new Set(all.map((each) => each.layer))];
  // Nothing is chosen yet: where something is to be seen, a histogram of zeros or of NaN alone has no bar.
  const filled = (each) => each.counts.length > 0;
  if (!layers.includes(chosen.layer)) {
    const bad = data.runs[0].diagnosis.first_bad?.layer;
    chosen.layer = all.some((each) => each.layer === bad && filled(each)) ? bad : (all.find(filled) ?? all[0]).layer;
  }
  const ofLayer = all.filter((each) => each.layer === chosen.layer);
  const kinds = [...new Set(ofLayer.map((each) => each.kind))];
  if (!kinds.includes(chosen.kind)) chosen.kind = (ofLayer.find(filled) ?? ofLayer[0]).kind;
  const ofKind = ofLayer.filter((each) => each.kind === chosen.kind);
  const steps = ofKind.map((each) => each.step);
  const one = chosen.at === null ? (ofKind.findLast(filled) ?? ofKind[ofKind.length - 1])
    : ofKind[Math.max(0, steps.findLastIndex((step) => step <= chosen.at))];
  const total = one.counts.reduce((sum, [, count]) => sum + count, 0) + one.zeros;
  const fates = Object.keys(FORMATS).map((name) => {
    const sum = (fate) => one.counts.filter(([exponent]) => fateIn(name, exponent) === fate).reduce((all, [, count]) => all + count, 0) / Math.max(1, total);
    return el("li", {}, t("inFormat", { name, lost: percent(sum("lost")), sub: percent(sum("subnormal")), over: percent(sum("overflow")), zeros: one.zeros }));
  });
  const about = `${chosen.layer}, ${t(chosen.kind)}`.slice(0, 200);
  const canvas = el("canvas", { role: "img", "aria-label": `${about}, ${t("step")} ${one.step}` });
  const overTime = el("canvas", { role: "img", "aria-label": `${about}, ${t("overTime", { format: chosen.format })}` });
  const change = (key, value) => { chosen[key] = value; drawHistogramSection(); };
  const swatch = (colour, word) => el("span", {}, el("span", { class: "swatch", style: `background:${colour}` }), t(word));
  put("histogram", el("div", { class: "controls no-print" },
    choice(t("layer"), layers.map((name) => [name, brief(name, 80) || "(model)"]), chosen.layer, (value) => change("layer", value)),
    choice(t("figure"), kinds.map((kind) => [kind, t(kind)]), chosen.kind, (value) => change("kind", value)),
    choice(t("step"), steps.map((step) => [step, step]), one.step, (value) => change("at", Number(value))),
    choice(t("format"), Object.keys(FORMATS).map((name) => [name, name]), chosen.format, (value) => change("format", value))),
  el("div", { class: "legend" }, swatch(LOST, "lost"), swatch(SUBNORMAL, "subnormal"), swatch(NORMAL, "normal"), swatch(BEYOND, "overflow")),
  el("div", { class: "charts" }, el("div", {}, el("h3", {}, `${t("step")} ${one.step}`), el("div", { class: "chart" }, canvas)),
    ofKind.length > 1 ? el("div", {}, el("h3", {}, t("overTime", { format: chosen.format })), el("div", { class: "chart" }, overTime)) : null),
  el("ul", {}, ...fates),
  tableOf([t("exponent"), t("elements")], one.counts.map(([exponent, count]) => [`2^${exponent}`, count]), 300));
  histogramCharts = [drawHistogram(canvas, one, chosen.format)];
  if (ofKind.length > 1) histogramCharts.push(drawFates(overTime, ofKind, chosen.format));
}
function drawAlerts() {
  const { alerts, alerts_total: total } = data.runs[0];
  if (!alerts.length) return put("alerts", el("p", {}, t("noAlerts")));
  put("alerts", el("p", { class: "soft" }, t("shownOf", { n: alerts.length, total })),
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": t("alertTable") }, el("table", {},
      el("thead", {}, el("tr", {}, ...["step", "type", "severity", "layer", "value", "message"].map((word) => el("th", { scope: "col" }, t(word))))),
      el("tbody", {}, ...alerts.map((alert) => el("tr", {}, el("td", {}, stepButton(alert.step)), el("td", {}, alert.type), el("td", { class: alert.severity }, alert.severity),
        el("td", { class: "name" }, alert.layer ?? ""), el("td", {}, shown(alert.value)), el("td", { class: "message" }, alert.message ?? "")))))));
}
// A step is chosen in any section and shows in all of them.
function choose(step) {
  chosen.step = step;
  markStep(charts, step);
  for (const button of document.querySelectorAll("button[data-step]")) {
    if (Number(button.dataset.step) === step) button.setAttribute("aria-current", "step"); else button.removeAttribute("aria-current");
  }
  for (const head of document.querySelectorAll("table.heat th[data-first]")) head.classList.toggle("chosen", step !== null && step >= Number(head.dataset.first) && step <= Number(head.dataset.last));
  if (step === null) return put("chosen");
  const told = place("diagnosis").querySelector(`button[data-step="${step}"]`);
  put("chosen", t("chosen", { step }) + " ",
    told ? el("button", { type: "button", class: "link no-print", onclick: () => { told.scrollIntoView({ block: "center" }); told.focus(); } }, t("toDiagnosis")) : null, " ",
    el("button", { type: "button", class: "link no-print", onclick: () => choose(null) }, t("clear")));
}
const SECTIONS = { asked: drawAsked, diagnosis: drawDiagnosis, curves: drawCurves, heat: drawHeat, ranks: drawRanks, histogram: drawHistogramSection, alerts: drawAlerts };
// data.shown: the sections that are open; all where there is none.
function draw() {
  drawHeader();
  for (const [name, drawSection] of Object.entries(SECTIONS)) {
    const section = place(name).parentElement;
    section.hidden = (data.shown && !data.shown.includes(name)) || (name === "asked" && !data.asked) || (name === "ranks" && !data.runs[0].ranks);
    if (!section.hidden) drawSection();
  }
  if (chosen.step !== null) choose(chosen.step);
}
// Paper is light, and as wide as it is.
let beforePaper = null;
addEventListener("beforeprint", () => {
  beforePaper = theme();
  setTheme("light");
  if (data.runs.length) redraw();
  for (const chart of [...charts, ...histogramCharts]) chart.resize();
});
addEventListener("afterprint", () => {
  setTheme(beforePaper);
  if (data.runs.length) redraw();
});
// Draws again without moving what has the keyboard's focus.
function redraw() {
  const section = document.activeElement?.closest("section");
  const focusable = "button, select, input, summary, [tabindex]";
  const at = section ? [...section.querySelectorAll(focusable)].indexOf(document.activeElement) : -1;
  const open = [...document.querySelectorAll("details")].map((each) => each.open);
  draw();
  [...document.querySelectorAll("details")].forEach((each, which) => { each.open = open[which] ?? false; });
  if (at >= 0) section.querySelectorAll(focusable)[at]?.focus({ preventScroll: true });
}
