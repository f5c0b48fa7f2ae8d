"use strict";
// Layers × steps as a table of coloured cells: the picture is its own table, for keys and screen readers.
const ROWS_AT_ONCE = 100;
const FP16_END = 65504;
// Cividis at nine places: even in lightness, the same to all kinds of colour vision.
const SHADES = ["#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#fee838"];
// The ends of the colours, [least, greatest, logarithmic]: of a share, or of magnitudes from the least there is up to FP16's end.
function scaleOf(map) {
  if (map.figure === "error") return [1e-5, 1, true];
  if (map.figure !== "absmax" && map.figure !== "rms") return [0, 1, false];
  let least = 1;
  for (const row of map.rows) for (const cell of row) if (cell > 0 && cell < least) least = cell;
  return [Math.max(1e-8, 10 ** Math.floor(Math.log10(least))), FP16_END, true];
}
function shade([least, greatest, isLog], value) {
  const along = isLog ? (Math.log(Math.max(value, least)) - Math.log(least)) / (Math.log(greatest) - Math.log(least)) : (value - least) / (greatest - least);
  return SHADES[Math.max(0, Math.min(SHADES.length - 1, Math.round(along * (SHADES.length - 1))))];
}
function isBeyond(map, dtype, value) {
  return map.figure === "absmax" && value > FP16_END && dtype !== "bfloat16" && (map.kind === "activation" || map.kind === "gradient");
}
function heatLegend(map) {
  const [least, greatest, isLog] = scaleOf(map);
  const ends = [0, 4, 8].map((at) => {
    const value = isLog ? Math.exp(Math.log(least) + (at / 8) * (Math.log(greatest) - Math.log(least))) : least + (at / 8) * (greatest - least);
    return el("span", {}, el("span", { class: "swatch", style: `background:${SHADES[at]}` }), isLog ? shown(value) : percent(value));
  });
  return el("div", { class: "legend" }, ...ends,
    el("span", {}, el("span", { class: "swatch", style: "background:#d55e00;color:#000" }, "✕"), t("bad")),
    map.figure === "absmax" ? el("span", {}, el("span", { class: "swatch", style: "background:#fee838;color:#000" }, "▲"), t("beyond")) : null);
}
// The cell in which the failure stands first: the column of its step, the row of its layer.
function firstBadCell(heat, firstBad) {
  if (!firstBad || firstBad.step === null || firstBad.step === undefined) return null;
  const row = heat.layers.indexOf(firstBad.layer);
  const column = heat.first_steps.findLastIndex((step) => step <= firstBad.step);
  return row < 0 || column < 0 ? null : { row, column };
}
function heatTable(heat, map, rows, firstBad, onCell) {
  // What was recorded at some steps only (shadow steps, gradients) has columns for those.
  const kept = heat.first_steps.map((step, at) => at).filter((at) => map.rows.some((row) => row[at] !== null));
  const columns = kept.length, scale = scaleOf(map);
  const every = Math.max(1, Math.ceil(columns / 8));
  const head = el("tr", {}, el("th", { scope: "col" }, t(heat.row ?? "layer")),
    ...kept.map((column, at) => el("th", { scope: "col", "data-first": heat.first_steps[column], "data-last": heat.last_steps[column] }, el("span", { class: at % every === 0 ? null : "unseen" }, String(heat.first_steps[column])))));
  const body = rows.map((row) => el("tr", {}, el("th", { scope: "row" }, heat.layers[row] || "(model)"),
    ...kept.map((column) => {
      const raw = map.rows[row][column];
      const value = number(raw);
      const cell = el("td", { role: "gridcell", tabindex: -1, "data-row": row, "data-column": column });
      let text = shown(raw);
      if (raw === null) text = t("nothing");
      else if (!Number.isFinite(value)) { cell.classList.add("bad"); cell.textContent = "✕"; text = t("bad"); }
      else {
        cell.style.background = shade(scale, value);
        if (isBeyond(map, heat.dtypes[row], value)) { cell.style.color = "#000"; cell.textContent = "▲"; text += ", " + t("beyond"); }
      }
      if (firstBad && firstBad.row === row && firstBad.column === column) cell.classList.add("first-bad");
      const label = t("cell", { layer: heat.layers[row], a: heat.first_steps[column], b: heat.last_steps[column], value: text });
      cell.setAttribute("aria-label", label);
      cell.title = label;
      return cell;
    })));
  const table = el("table", { class: columns <= 20 ? "heat wide" : "heat", role: "grid", "aria-label": t("of", { kind: t(map.kind), figure: t(map.figure) }) },
    el("thead", {}, head), el("tbody", {}, ...body));
  const chosen = (cell) => onCell(Number(cell.dataset.row), Number(cell.dataset.column), cell);
  table.addEventListener("click", (event) => { const cell = event.target.closest("td"); if (cell) { cell.focus(); chosen(cell); } });
  table.addEventListener("keydown", (event) => {
    const cell = event.target.closest("td");
    if (!cell) return;
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); chosen(cell); return; }
    const row = cell.parentElement;
    const at = [...row.cells].indexOf(cell);
    const next = { ArrowLeft: cell.previousElementSibling, ArrowRight: cell.nextElementSibling, ArrowUp: row.previousElementSibling?.cells[at], ArrowDown: row.nextElementSibling?.cells[at],
      Home: row.cells[1], End: row.cells[row.cells.length - 1] }[event.key];
    if (next && next.tagName === "TD") { event.preventDefault(); cell.tabIndex = -1; next.tabIndex = 0; next.focus(); }
  });
  const first = table.querySelector("td.first-bad") ?? table.querySelector("td");
  if (first) first.tabIndex = 0;
  return table;
}
