"use strict";
// Draws one chart into an SVG of the size it is shown at, so that text keeps its size on every screen.

const SVG = "http://www.w3.org/2000/svg";
const NARROW = 272; // pixels: charts wider than this are no taller than wide
const EDGE = { top: 30, right: 14, bottom: 46 };
const INSET = 9; // between the frame and the outermost points
const ZERO_GAP = 34; // between a zero and the rest of a logarithmic axis
const LETTER = 7.7; // pixels of a digit in the widest of the fonts
const STEPS = 64; // of a line between two points, where a word might cover it
const CROWDED = 26; // pixels between the markers of a long line

const MARKERS = [
  (r) => circle(r), (r) => circle(r), (r) => polygon(4, r * 1.15, 45), (r) => polygon(3, r * 1.3, -90),
  (r) => polygon(3, r * 1.3, -90), (r) => polygon(4, r * 1.3, 0), (r) => polygon(3, r * 1.3, 90),
  (r) => polygon(4, r * 1.3, 0), (r) => strokes(r, [45, 135]), (r) => strokes(r * 1.15, [0, 90]),
  (r) => strokes(r * 1.15, [0, 60, 120]), (r) => polygon(4, r * 1.15, 45),
];

function circle(r) {
  return `M${-r},0a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0Z`;
}

function polygon(corners, r, turn) {
  const at = (i) => ((turn + (360 * i) / corners) * Math.PI) / 180;
  const points = Array.from({ length: corners }, (_, i) => `${(r * Math.cos(at(i))).toFixed(2)},${(r * Math.sin(at(i))).toFixed(2)}`);
  return `M${points.join("L")}Z`;
}

function strokes(r, angles) {
  return angles.map((degrees) => {
    const [x, y] = [Math.cos, Math.sin].map((f) => (r * f((degrees * Math.PI) / 180)).toFixed(2));
    return `M${-x},${-y}L${x},${y}`;
  }).join("");
}

function svgNode(name, attributes, parent) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (parent) parent.append(node);
  return node;
}

/** What gives a series its looks: a class for its style, or its place on the ramp. A second dozen changes colours. */
function dress(node, series) {
  if (series.ramp === null || series.ramp === undefined) {
    node.classList.add(`style-${series.style % MARKERS.length}`);
    node.classList.toggle("again", series.style >= MARKERS.length);
  } else {
    node.classList.add("ramp");
    node.style.setProperty("--at", `${Math.round(100 * series.ramp)}%`);
  }
  return node;
}

function markerPath(series) {
  return series.ramp === null || series.ramp === undefined ? MARKERS[series.style % MARKERS.length](series.size) : circle(0.875 * series.size * (1 + series.ramp));
}

/** Whether a series shows its points; curves and paths do not. */
function marked(series) {
  return series.kind === "line" || series.kind === "points";
}

/** Draw a chart `width` pixels wide, no taller than wide. Returns its node and the points that can be pointed at. */
function drawChart(chart, width, few, id) {
  const height = Math.min(chart.height, Math.max(NARROW, width));
  const svg = svgNode("svg", { width, height, viewBox: `0 0 ${width} ${height}`, class: "chart", role: "group", "aria-roledescription": "chart" });
  svg.setAttribute("aria-label", `${chart.title}: ${chart.y.label} against ${chart.x.label}. Arrow keys read the points.`);
  const frame = makeFrame(chart, width, height, few);
  drawAxes(svg, chart, frame);
  const clip = svgNode("clipPath", { id }, svgNode("defs", {}, svg));
  svgNode("rect", { x: frame.left, y: frame.top, width: frame.right - frame.left, height: frame.bottom - frame.top }, clip);
  for (const level of chart.levels) drawLevel(svg, level, frame);
  const under = (series) => (series.kind === "path" ? 0 : 1); // the first series lies on top, paths below all
  const order = [...chart.series].reverse().sort((a, b) => under(a) - under(b));
  const points = order.map((series) => drawSeries(svg, series, frame, id)).reverse().flat();
  drawMarks(svg, points, frame);
  svgNode("circle", { class: "ring off", r: 8 }, svg);
  return { svg, points, frame };
}

/** Where the plot lies, and its two scales. */
function makeFrame(chart, width, height, few) {
  const xs = chart.series.flatMap((s) => s.x);
  const ys = [...chart.series.flatMap((s) => (few ? [...s.y, ...s.low, ...s.high] : s.y)), ...chart.levels.map((l) => l.y)];
  const [top, bottom] = [EDGE.top, height - EDGE.bottom];
  const y = makeScale(chart.y, ys, bottom - INSET, top + INSET, 0);
  const yTicks = y.ticks(5);
  const left = Math.ceil(10 + LETTER * Math.max(2, ...yTicks.map((tick) => tick.label.length)));
  const right = width - EDGE.right;
  const x = makeScale(chart.x, xs, left + INSET, right - INSET, ZERO_GAP);
  return { top, bottom, left, right, height, x, y, yTicks, xTicks: spaced(x, x.ticks(Math.floor((right - left) / 52))) };
}

/** Ticks whose labels do not touch. */
function spaced(x, ticks) {
  let end = -Infinity;
  return ticks.map((tick) => {
    const half = (LETTER * tick.label.length) / 2;
    const free = x(tick.value) - half > end + 3;
    if (free) end = x(tick.value) + half;
    return free ? tick : { ...tick, label: "" };
  });
}

function drawAxes(svg, chart, { top, bottom, left, right, height, x, y, xTicks, yTicks }) {
  const axes = svgNode("g", { class: "axes" }, svg);
  for (const tick of yTicks) {
    const at = Math.round(y(tick.value)) + 0.5;
    svgNode("line", { class: "grid", x1: left, x2: right, y1: at, y2: at }, axes);
    svgNode("text", { x: left - 8, y: at + 4, "text-anchor": "end" }, axes).textContent = tick.label;
  }
  for (const tick of xTicks) {
    const at = Math.round(x(tick.value)) + 0.5;
    svgNode("line", { class: "tick", x1: at, x2: at, y1: bottom, y2: bottom + 4 }, axes);
    if (tick.label) svgNode("text", { x: at, y: bottom + 17, "text-anchor": "middle" }, axes).textContent = tick.label;
  }
  const gap = x.hasZero ? x(0) + ZERO_GAP / 2 : null;
  const line = gap === null ? `M${left},${bottom}H${right}` : `M${left},${bottom}H${gap - 3}M${gap + 3},${bottom}H${right}`;
  svgNode("path", { class: "base", d: line }, axes);
  if (gap !== null) svgNode("path", { class: "base", d: `M${gap - 5},${bottom + 4}l4,-8M${gap + 1},${bottom + 4}l4,-8` }, axes);
  svgNode("rect", { class: "plot", x: left, y: top, width: right - left, height: bottom - top }, axes);
  svgNode("text", { class: "axis-label", "data-axis": "y", x: 0, y: 13 }, axes).textContent = chart.y.label;
  svgNode("text", { class: "axis-label", "data-axis": "x", x: right, y: height - 6, "text-anchor": "end" }, axes).textContent = chart.x.label;
}

function drawLevel(svg, level, { left, right, y }) {
  const group = svgNode("g", { class: level.faint ? "level faint" : "level" }, svg);
  group.dataset.series = level.name;
  svgNode("line", { x1: left, x2: right, y1: y(level.y), y2: y(level.y) }, group);
}

function drawSeries(svg, series, { x, y }, clip) {
  const group = dress(svgNode("g", { class: `series ${series.kind}` }, svg), series);
  group.dataset.series = series.name;
  const shown = series.x.map((v, i) => i).filter((i) => x.shows(series.x[i]) && y.shows(series.y[i]));
  const place = (i, values) => `${x(series.x[i]).toFixed(1)},${y(values[i]).toFixed(1)}`;
  const clipped = svgNode("g", { "clip-path": `url(#${clip})` }, group);
  const parts = unbroken(shown, (i) => x.hasZero && series.x[i] === 0);
  if (series.low.length) {
    for (const part of parts.filter((p) => p.length > 1)) {
      const there = part.filter((i) => y.shows(series.low[i]) && y.shows(series.high[i]));
      const outline = [...there.map((i) => place(i, series.high)), ...there.reverse().map((i) => place(i, series.low))];
      if (outline.length) svgNode("path", { class: "band", d: `M${outline.join("L")}Z` }, clipped);
    }
  }
  if (series.kind !== "points") {
    const d = parts.filter((p) => p.length > 1).map((part) => `M${part.map((i) => place(i, series.y)).join("L")}`).join("");
    if (d) svgNode("path", { class: "curve", d }, clipped);
  }
  const points = shown.filter((i) => y.inside(series.y[i]) && x.inside(series.x[i]));
  if (marked(series)) drawMarkers(group, series, points, x, y);
  return points.map((i) => ({ series, i, px: x(series.x[i]), py: y(series.y[i]) }));
}

/** Runs of neighbouring points; a zero next to a logarithmic axis stands alone. */
function unbroken(indices, alone) {
  const parts = [];
  for (const i of indices) {
    const last = parts.at(-1);
    if (last && last.at(-1) === i - 1 && !alone(i) && !alone(i - 1)) last.push(i);
    else parts.push([i]);
  }
  return parts;
}

/** A marker on every point, or on some where they would run into each other. */
function drawMarkers(group, series, points, x, y) {
  const d = markerPath(series);
  let before = -Infinity;
  for (const i of points) {
    const at = x(series.x[i]);
    if (series.kind === "line" && series.x.length > 14 && at - before < CROWDED) continue;
    before = at;
    svgNode("path", { class: "marker", d, transform: `translate(${at.toFixed(1)},${y(series.y[i]).toFixed(1)})` }, group);
  }
}

/** Words next to some points: on whichever side they cover the fewest others, and no line if possible. */
function drawMarks(svg, points, { left, right, top, bottom }) {
  const lines = points.flatMap(({ series, i, px, py }, at) => {
    const next = points[at + 1];
    if (!next || next.series !== series || next.i !== i + 1 || series.kind === "points") return [];
    return [...Array(STEPS).keys()].map((t) => [px + ((next.px - px) * t) / STEPS, py + ((next.py - py) * t) / STEPS]);
  });
  for (const { series, i, px, py } of points.filter((p) => p.series.marks[p.i])) {
    const width = LETTER * series.marks[i].length;
    const places = [[12, 4], [-12 - width, 4], [-width / 2, -14], [-width / 2, 24], [10, -12], [10, 20], [-10 - width, -12], [-10 - width, 20]];
    const boxes = places.map(([dx, dy]) => ({ x: px + dx, y: py + dy }));
    const cost = (box) => {
      const outside = box.x < left || box.x + width > right || box.y - 12 < top || box.y > bottom;
      const covered = points.filter((p) => p.px > box.x - 6 && p.px < box.x + width + 6 && p.py > box.y - 17 && p.py < box.y + 8);
      const crossed = lines.some(([px, py]) => px > box.x && px < box.x + width && py > box.y - 12 && py < box.y + 4);
      return (outside ? 100 : 0) + covered.length + (crossed ? 0.5 : 0);
    };
    const box = boxes.reduce((best, other) => (cost(other) < cost(best) ? other : best));
    const group = svgNode("g", {}, svg);
    group.dataset.series = series.name;
    svgNode("text", { class: "mark", x: box.x, y: box.y }, group).textContent = series.marks[i];
  }
}
