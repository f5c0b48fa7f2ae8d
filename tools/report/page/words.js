"use strict";
// Every sentence of the page, in its languages. `t` takes {names} from its second argument.
const WORDS = {
  en: {
    diagnosis: "What went wrong", curves: "Curves", heat: "Layers × steps", histogram: "Magnitudes of one tensor", alerts: "Alerts",
    language: "Language", theme: "Theme", auto: "as the system", light: "light", dark: "dark", log: "logarithmic",
    loss: "loss", grad_norm: "gradient norm (L2, unscaled)", lr: "learning rate", loss_scale: "loss scale", step: "step", nthStep: "step {n}",
    data: "data", forward: "forward", backward: "backward", optimizer: "optimizer",
    range: "least to greatest", skipped: "steps without an update", notFinite: "loss not finite", table: "As a table",
    steps: "{n} steps", status: "{status}; {steps} steps; loss {first} → {last}; {precision}",
    status_running: "running", status_closed: "closed", status_exception: "ended by an exception", status_killed: "killed",
    verdict_healthy: "healthy", verdict_numbers_healthy: "numbers healthy", verdict_broken: "broken", verdict_degraded: "degraded", verdict_not_established: "not established",
    evidence: "Evidence", against: "Against it", fix: "Fix", next: "Next measurement", confidence: "confidence {p} %", measured: "measured", recognised: "possible, only recognised", firstBad: "First bad:", alertTable: "table of alerts",
    chain: "Where it came from and where it went", origin: "origin", carrier: "carries it on", limits: "Limits",
    figure: "Figure", filter: "Layers that contain", more: "show {n} more layers", leftOut: "{n} layers are not in this page.",
    cell: "{layer}, steps {a} to {b}: {value}", nothing: "nothing recorded", bad: "NaN or Inf", beyond: "beyond FP16's largest number, 65504",
    chosen: "Step {step} is chosen.", clear: "clear", none: "Nothing was recorded for this.", noAlerts: "No alert.",
    type: "type", severity: "severity", layer: "layer", phase: "phase", message: "message", value: "value",
    of: "{kind}, {figure}", activation: "activations", gradient: "gradients", weight: "weights", update: "updates", shadow_forward: "shadow steps, forward",
    shadow_backward: "shadow steps, backward", absmax: "largest magnitude", rms: "root mean square", zeros: "share of zeros",
    underflow: "share that FP16 rounds to 0", frozen: "share of lost updates", error: "relative error against FP64",
    lost: "rounds to 0", subnormal: "subnormal", normal: "normal", overflow: "beyond the end", format: "Format",
    elements: "elements", exponent: "magnitude (power of two)", inFormat: "{name}: {lost} rounds to 0, {sub} subnormal, {over} beyond its end; {zeros} zeros",
    shownOf: "{n} of {total}", live: "live", madeBy: "Made by mpnanny {version}. This file needs no network. Charts: Chart.js (MIT).",
    at: "at", keys: "Arrow keys move, Enter chooses.", first: "first", stretch: "steps", asked: "What was asked", samples: "{n} sampled steps were read; each cell shows the worst of its steps.", overTime: "{format} over the steps",
    ranks: "Ranks × steps", rank: "rank", duration: "seconds a step", apart: "apart from the ranks' median", apartWords: "A cell is how far the rank's figure lies from the median of all ranks, as a share of it.", ranksLeftOut: "{n} ranks that lie closer to the others are not in this page.",
    shareOfElements: "share of elements, %", toDiagnosis: "to the diagnosis", loading: "Reading the run …", serverEnded: "mpnanny view has ended: this is the last state.",
    cancelled: "The call was cancelled.", noData: "This client passes no data on to the view; the answer in words has the facts.", wholePage: "Whole page", overlaid: "dashed: {name} ({run})",
  },
  zh: {
    diagnosis: "问题出在哪里", curves: "曲线", heat: "层 × 步", histogram: "单个张量的数量级分布", alerts: "告警",
    language: "语言", theme: "主题", auto: "跟随系统", light: "浅色", dark: "深色", log: "对数坐标",
    loss: "损失", grad_norm: "梯度范数（L2，已反缩放）", lr: "学习率", loss_scale: "损失缩放", step: "步", nthStep: "第 {n} 步",
    data: "数据", forward: "前向", backward: "反向", optimizer: "优化器",
    range: "最小到最大", skipped: "未更新的步", notFinite: "损失为 NaN/Inf", table: "以表格显示",
    steps: "{n} 步", status: "{status}；{steps} 步；损失 {first} → {last}；{precision}",
    status_running: "运行中", status_closed: "已结束", status_exception: "因异常结束", status_killed: "被终止",
    verdict_healthy: "健康", verdict_numbers_healthy: "数值健康", verdict_broken: "已崩溃", verdict_degraded: "有退化", verdict_not_established: "未能确定",
    evidence: "证据", against: "反面证据", fix: "修复", next: "下一步测量", confidence: "置信度 {p} %", measured: "实测", recognised: "可能，仅为识别", firstBad: "首个异常：", alertTable: "告警表",
    chain: "来源与传播", origin: "源头", carrier: "被传播", limits: "局限",
    figure: "指标", filter: "层名包含", more: "再显示 {n} 层", leftOut: "另有 {n} 层未包含在本页。",
    cell: "{layer}，第 {a} 到 {b} 步：{value}", nothing: "没有记录", bad: "NaN 或 Inf", beyond: "超过 FP16 最大值 65504",
    chosen: "已选第 {step} 步。", clear: "取消", none: "没有相应记录。", noAlerts: "没有告警。",
    type: "类型", severity: "级别", layer: "层", phase: "阶段", message: "说明", value: "值",
    of: "{kind}，{figure}", activation: "激活", gradient: "梯度", weight: "权重", update: "更新量", shadow_forward: "影子步，前向",
    shadow_backward: "影子步，反向", absmax: "最大绝对值", rms: "均方根", zeros: "零的比例",
    underflow: "在 FP16 中变为 0 的比例", frozen: "丢失更新的比例", error: "相对 FP64 的误差",
    lost: "变为 0", subnormal: "次正规数", normal: "正规数", overflow: "超出上限", format: "格式",
    elements: "元素个数", exponent: "数量级（2 的幂）", inFormat: "{name}：{lost} 变为 0，{sub} 为次正规数，{over} 超出上限；{zeros} 个零",
    shownOf: "{total} 条中的 {n} 条", live: "实时", madeBy: "由 mpnanny {version} 生成，无需网络。图表：Chart.js（MIT）。",
    at: "在", keys: "方向键移动，回车选择。", first: "首个", stretch: "步", asked: "查询结果", samples: "读取了 {n} 个采样步；每格显示其中最差的值。", overTime: "{format} 随步数的变化",
    ranks: "Rank × 步", rank: "rank", duration: "每步秒数", apart: "与各 rank 中位数的差距", apartWords: "每格表示该 rank 的值与所有 rank 中位数的差距（占中位数的比例）。", ranksLeftOut: "另有 {n} 个更接近其他 rank 的 rank 未包含在本页。",
    shareOfElements: "元素比例，%", toDiagnosis: "查看诊断", loading: "正在读取运行数据……", serverEnded: "mpnanny view 已结束：这是最后的状态。",
    cancelled: "调用已取消。", noData: "此客户端不向视图传递数据；文字回答中有全部事实。", wholePage: "完整页面", overlaid: "虚线：{name}（{run}）",
  },
};
let language = "en";
function t(word, values = {}) {
  // A word may come out of a run, and be the name of what every object has.
  const text = [WORDS[language], WORDS.en].find((words) => Object.hasOwn(words, word))?.[word] ?? word;
  return text.replace(/\{(\w+)\}/g, (whole, name) => String(values[name] ?? ""));
}
// An element with attributes and children; what is no node becomes text, never markup.
function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((each) => each !== null && each !== undefined));
  return made;
}
// "nan", "inf" and "-inf" are words in the data; null is not known.
function number(value) {
  if (value === null || value === undefined) return NaN;
  return typeof value === "number" ? value : { inf: Infinity, "-inf": -Infinity }[value] ?? NaN;
}
function shown(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  const size = Math.abs(value);
  if (value === 0 || (size >= 0.01 && size < 100000)) return String(Number(value.toPrecision(4)));
  return value.toExponential(2);
}
// A name that is too long keeps its beginning and, since layers differ there, more of its end.
function brief(text, most) { return text.length <= most ? text : `${text.slice(0, Math.floor(most / 3))}…${text.slice(-Math.ceil((2 * most) / 3) + 1)}`; }
function percent(share) { return shown(100 * share) + " %"; }
