"use strict";
// Where the data comes from: the file itself, the server of `mpnanny view`, or the client that shows the page (host.js).
const given = JSON.parse(document.getElementById("data").textContent);
const SEVERAL_DECADES = 3;
function show(runs, more = {}) {
  const first = !data.runs.length;
  data = { ...given, ...more, runs };
  if (!first) return redraw();
  const maps = runs[0].heat?.maps ?? [];
  // A break shows in magnitudes, a quiet loss of precision in the errors that shadow steps measured.
  const { verdict, first_bad: bad } = runs[0].diagnosis, backward = bad?.phase === "backward";
  const kind = verdict === "degraded" && bad?.operator ? (backward ? "shadow_backward" : "shadow_forward") : backward ? "gradient" : "activation";
  // Losses that fall over decades end in a line along the bottom of a linear axis.
  for (const metric of ["loss", "grad_norm"]) if (decades(valuesOf(metric, runs)) >= SEVERAL_DECADES) chosen.log.add(metric);
  chosen.map = Math.max(0, maps.findIndex((map) => map.kind === kind));
  draw();
}
// A run that goes on is asked about every five seconds, one that has ended now and then: it may be taken up again.
let tag = null;
async function follow() {
  let wait = 5000;
  try {
    const answer = await fetch("data.json", { cache: "no-store", headers: tag ? { "If-None-Match": tag } : {} });
    if (answer.ok) {
      tag = answer.headers.get("ETag");
      show((await answer.json()).runs);
      say("");
    } else if (answer.status !== 304) say(await answer.text());
    if (data.runs.length && data.runs.every((run) => run.summary.status !== "running")) wait = 30000;
  } catch { say(t("serverEnded")); }
  setTimeout(follow, wait);
}
// One line above everything: that there is nothing yet, or no longer.
function say(text) { put("note", text); place("note").hidden = !text; }
if (given.language in WORDS) language = given.language;
if (given.host) startInHost();
else if (given.live) { say(t("loading")); follow(); }
else show(given.runs);
