"use strict";
// Curves over the steps and histograms of magnitudes, drawn by Chart.js; a table stands behind each.
function isDark() { const [red, green, blue] = ink().match(/[0-9a-f]{2}/gi).map((part) => parseInt(part, 16)); return red + green + blue > 384; }
// Of the two runs, and of series that a tool answered: Okabe and Ito's, the light ones first on a dark ground.
function lineColours() { return isDark() ? ["#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#f0e442", "#d55e00"] : ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"]; }
const LOST = "#cc79a7", SUBNORMAL = "#e69f00", NORMAL = "#0072b2", BEYOND = "#d55e00";
const FORMATS = {  // exponents of the smallest subnormal, the smallest normal and the largest number
  FP16: [-24, -14, 15], BF16: [-133, -126, 127], E4M3: [-9, -6, 8], E5M2: [-16, -14, 15],
};
function ink() { return getComputedStyle(document.documentElement).getPropertyValue("--ink").trim(); }
function grid() { return getComputedStyle(document.documentElement).getPropertyValue("--line").trim(); }
// Of a logarithmic axis over several decades only powers of ten are told: Chart.js writes 1e-7 as 0.0000001.
function powers(value) {
  if (this.max < 100 * this.min) return shown(value);
  const power = Math.round(1e6 * Math.log10(value)) / 1e6;
  if (!Number.isInteger(power)) return "";
  return power > -3 && power < 5 ? shown(value) : `1e${power}`;
}
function axis(title, more = {}) {
  return { title: { display: true, text: title, color: ink() }, ticks: { color: ink(), ...(more.type === "logarithmic" ? { callback: powers } : {}) }, grid: { color: grid() }, ...more };
}
// The values that a metric has in the runs, as far as they are numbers.
function valuesOf(metric, runs) {
  return runs.flatMap((run) => ["least", "greatest", "last"].flatMap((key) => run.course.curves?.[metric]?.[key] ?? [])).map(number).filter(Number.isFinite);
}
// Not Math.min(...values): a curve may have more points than a call takes arguments.
function endsOf(values) { return values.reduce(([least, greatest], value) => [Math.min(least, value), Math.max(greatest, value)], [Infinity, -Infinity]); }
// Over how many powers of ten positive values reach; 0 where one of them is not positive.
function decades(values) {
  const [least, greatest] = endsOf(values);
  return least > 0 && Number.isFinite(greatest) ? Math.log10(greatest / least) : 0;
}
// The axis of a curve. That of a constant is the constant's: one value in its middle, and no numbers that nothing has.
function valueAxis(title, values, isLog) {
  const type = isLog ? "logarithmic" : "linear";
  const [least, greatest] = endsOf(values);
  if (!(greatest - least <= 1e-9 * Math.abs(greatest))) return axis(title, { type });
  const room = Math.abs(least) / 2 || 1;
  const plain = axis(title, { type: "linear", min: least - room, max: least + room });
  return { ...plain, ticks: { ...plain.ticks, callback: (value) => shown(value) }, afterBuildTicks: (scale) => { scale.ticks = [{ value: least }]; } };
}
// A table of what a picture shows, at most `most` rows, evenly taken.
function tableOf(heads, rows, most = 60) {
  const stride = Math.max(1, Math.ceil(rows.length / most));
  const body = rows.filter((row, at) => at % stride === 0 || at === rows.length - 1);
  return el("details", {}, el("summary", {}, t("table")),
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": t("table") }, el("table", {},
      el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col" }, head)))),
      el("tbody", {}, ...body.map((row) => el("tr", {}, ...row.map((cell) => el("td", {}, shown(cell)))))))));
}
function points(course, values) {
  return course.step.map((step, at) => ({ x: step, y: values[at] === null ? NaN : number(values[at]) }));
}
function curveSets(metric, runs, isLog) {
  const sets = [], colours = lineColours();
  runs.forEach((run, which) => {
    const curve = run.course.curves?.[metric];
    if (!curve) return;
    const fits = (point) => ({ x: point.x, y: isLog && point.y <= 0 ? NaN : point.y });
    const line = { borderColor: colours[which], backgroundColor: colours[which] + "33", pointRadius: 0, pointStyle: "line", spanGaps: true, run: which };
    const name = runs.length > 1 ? brief(`${which + 1} ${run.summary.name}`, 40) + ": " : "";
    if (curve.least.some((least, at) => least !== curve.greatest[at])) {
      sets.push({ ...line, label: name + t("range"), data: points(run.course, curve.least).map(fits), borderWidth: 0, fill: "+1" });
      sets.push({ ...line, label: "", data: points(run.course, curve.greatest).map(fits), borderWidth: 0 });
    }
    sets.push({ ...line, label: name + t(metric), data: points(run.course, curve.last).map(fits), borderWidth: 1.5, borderDash: which ? [6, 4] : [] });
    if (which > 0) return;
    const heights = sets[sets.length - 1].data.map((point) => point.y).filter(Number.isFinite);
    const floor = heights.length ? Math.min(...heights) : isLog ? 1 : 0;
    const mark = (counts, label, style, colour) => {
      const data = run.course.step.map((step, at) => ({ x: step, y: counts[at] ? floor : NaN })).filter((point) => Number.isFinite(point.y));
      if (data.length) sets.push({ label, data, type: "scatter", pointStyle: style, radius: 5, borderColor: colour, backgroundColor: colour, run: which });
    };
    if (metric === "loss") mark(run.course.not_finite, t("notFinite"), "crossRot", "#d55e00");
    if (metric === "loss_scale" || metric === "grad_norm") mark(run.course.skipped, t("skipped"), "cross", "#009e73");
    const at = (step) => run.course.step.findLastIndex((first) => first <= step);
    const alerts = run.alerts.filter((alert) => alert.severity === "ERROR" || alert.severity === "WARNING");
    const data = alerts.map((alert) => ({ x: alert.step, y: number(curve.last[at(alert.step)]), alert }));
    const placed = data.map((point) => (Number.isFinite(point.y) && !(isLog && point.y <= 0) ? point : { ...point, y: floor }));
    if (placed.length && metric === "loss") sets.push({ label: t("alerts"), data: placed, type: "scatter", pointStyle: "triangle", radius: 6, borderColor: ink(), backgroundColor: "#e69f00", run: which });
  });
  return sets;
}
function drawCurve(canvas, metric, runs, isLog, onStep) {
  return new Chart(canvas, {
    type: "line",
    data: { datasets: curveSets(metric, runs, isLog) },
    options: {
      animation: false, responsive: true, maintainAspectRatio: false, parsing: false, normalized: true,
      interaction: { mode: "nearest", axis: "x", intersect: false },
      onClick: (event, found, chart) => onStep(Math.round(chart.scales.x.getValueForPixel(event.x))),
      scales: { x: axis(t("step"), { type: "linear" }), y: valueAxis(t(metric), valuesOf(metric, runs), isLog) },
      plugins: {
        legend: { labels: { color: ink(), usePointStyle: true, filter: (item) => item.text !== "" } },
        tooltip: { callbacks: {
          title: (items) => items.length ? `${t("step")} ${items[0].parsed.x}` : "",
          label: (item) => item.raw.alert ? brief(`${item.raw.alert.type} ${item.raw.alert.layer ?? ""}`, 120) : `${item.dataset.label}: ${shown(item.parsed.y)}` } },
      },
    },
  });
}
// A line through the chosen step in every chart; null takes it away.
function markStep(charts, step) {
  for (const chart of charts) {
    const sets = chart.data.datasets.filter((set) => !set.isMark);
    const { min, max } = chart.scales.y;
    if (step !== null) sets.push({ isMark: true, label: "", type: "line", data: [{ x: step, y: min }, { x: step, y: max }], borderColor: ink(), borderDash: [3, 3], borderWidth: 1.5, pointRadius: 0 });
    chart.options.scales.y.min = step === null ? undefined : min;
    chart.options.scales.y.max = step === null ? undefined : max;
    chart.data.datasets = sets;
    chart.update("none");
  }
}
const MOST_LINES = 6;
function drawSeries(canvas, series, title, isLog) {
  const place = (value) => { const y = number(value); return Number.isFinite(y) && !(isLog && y <= 0) ? y : NaN; };
  const colours = lineColours();
  return new Chart(canvas, {
    type: "line",
    data: { datasets: series.map((each, at) => ({ label: brief(each.name, 60), data: each.points.map(([step, value]) => ({ x: step, y: place(value) })),
      borderColor: colours[at], backgroundColor: colours[at], borderDash: at % 2 ? [6, 4] : [], borderWidth: 1.5, pointRadius: 1.5, pointStyle: "line" })) },
    options: { animation: false, responsive: true, maintainAspectRatio: false, parsing: false,
      scales: { x: axis(t("step"), { type: "linear" }), y: valueAxis(title, series.flatMap((each) => each.points.map(([, value]) => number(value))).filter(Number.isFinite), isLog) },
      plugins: { legend: { labels: { color: ink(), usePointStyle: true } } } },
  });
}
function fateIn(format, exponent) {
  const [least, normal, end] = FORMATS[format];
  if (exponent < least - 1) return "lost";
  if (exponent < normal) return "subnormal";
  return exponent > end ? "overflow" : "normal";
}
// Draws where each format ends: its smallest subnormal and its largest number.
function formatEnds(from) {
  return { id: "ends", afterDatasetsDraw(chart) {
    const { ctx, chartArea, scales: { x } } = chart;
    Object.entries(FORMATS).forEach(([name, [least, , end]], at) => {
      for (const [exponent, mark] of [[least, `${name} ⊢`], [end + 1, `⊣ ${name}`]]) {
        const place = x.getPixelForValue(exponent - from) - (x.getPixelForValue(1) - x.getPixelForValue(0)) / 2;
        if (!(place >= chartArea.left - 1 && place <= chartArea.right + 1)) continue;
        ctx.save();
        ctx.strokeStyle = ctx.fillStyle = ink();
        ctx.setLineDash([3, 3]);
        ctx.beginPath();
        ctx.moveTo(place, chartArea.top);
        ctx.lineTo(place, chartArea.bottom);
        ctx.stroke();
        ctx.font = "11px system-ui, sans-serif";
        // Outside of the format, or inside where the picture ends.
        const width = ctx.measureText(mark).width + 3;
        const before = exponent === least ? place - width >= chartArea.left : place + width > chart.width;
        ctx.textAlign = before ? "right" : "left";
        ctx.fillText(mark, place + (before ? -3 : 3), chartArea.top + 11 + 13 * at);
        ctx.restore();
      }
    });
  } };
}
// Shares of a tensor's elements that a format would lose, over the steps.
function drawFates(canvas, histograms, format) {
  const shares = histograms.map((each) => {
    const total = Math.max(1, each.counts.reduce((sum, [, count]) => sum + count, 0) + each.zeros);
    const of = { lost: 0, subnormal: 0, normal: 0, overflow: 0 };
    for (const [exponent, count] of each.counts) of[fateIn(format, exponent)] += count / total;
    return of;
  });
  const colour = { lost: LOST, subnormal: SUBNORMAL, normal: NORMAL, overflow: BEYOND };
  return new Chart(canvas, {
    type: "bar",
    data: { labels: histograms.map((each) => String(each.step)), datasets: Object.keys(colour).map((fate) => ({ label: t(fate), data: shares.map((each) => 100 * each[fate]), backgroundColor: colour[fate] })) },
    options: { animation: false, responsive: true, maintainAspectRatio: false,
      scales: { x: axis(t("step"), { stacked: true }), y: axis(t("shareOfElements"), { stacked: true, max: 100 }) },
      plugins: { legend: { labels: { color: ink() } }, tooltip: { callbacks: { label: (item) => `${item.dataset.label}: ${shown(item.parsed.y)} %` } } } },
  });
}
function drawHistogram(canvas, histogram, format) {
  const counts = new Map(histogram.counts);
  const [least, , end] = FORMATS[format];
  const seen = [...counts.keys()];
  const from = Math.max(-140, Math.min(least - 2, ...seen)), to = Math.min(127, Math.max(end + 2, ...seen));
  const labels = [], data = [], colours = [];
  const colour = { lost: LOST, subnormal: SUBNORMAL, normal: NORMAL, overflow: BEYOND };
  for (let exponent = from; exponent <= to; ++exponent) {
    labels.push(`2^${exponent}`);
    data.push(counts.get(exponent) ?? 0);
    colours.push(colour[fateIn(format, exponent)]);
  }
  return new Chart(canvas, {
    type: "bar",
    plugins: [formatEnds(from)],
    data: { labels, datasets: [{ data, backgroundColor: colours, barPercentage: 1, categoryPercentage: 0.95 }] },
    options: {
      animation: false, responsive: true, maintainAspectRatio: false,
      scales: { x: axis(t("exponent")), y: axis(t("elements")) },
      plugins: { legend: { display: false }, tooltip: { callbacks: { label: (item) => `${item.parsed.y}: ${t(fateIn(format, from + item.dataIndex))}` } } },
    },
  });
}
