"use strict";
// A figure: a choice of views, one legend outside of the plots, small multiples, and a tooltip.

const FEW = 3; // bands are always shown up to so many series, beyond only for the one that is pointed at
const LEGEND_SIZE = 4; // of its markers, whatever their size in the plot
const BAR = 48; // pixels at the top of the window that are taken
const REACH = 40; // pixels from the pointer within which a point is read out
let charts = 0;

function element(name, className, parent, text) {
  const node = document.createElement(name);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  if (parent) parent.append(node);
  return node;
}

/** A segmented control out of radio buttons; calls `pick` with the index. */
function choice(parent, title, labels, chosen, pick) {
  const set = element("fieldset", "choice", parent);
  element("legend", "unseen", set, title);
  const name = `choice-${(charts += 1)}`;
  labels.forEach((text, i) => {
    const label = element("label", "", set);
    const input = element("input", "unseen", label);
    Object.assign(input, { type: "radio", name, checked: i === chosen });
    input.addEventListener("change", () => pick(i));
    element("span", "", label, text);
  });
  return set;
}

class FigureView {
  constructor(root) {
    this.root = root;
    this.hidden = new Set();
    this.view = 0;
    this.read(JSON.parse(root.querySelector("script[type='application/json']").textContent));
    this.control(element("div", "figure-head", root));
    this.legend = element("div", "legend", root);
    this.legend.setAttribute("role", "group");
    this.legend.setAttribute("aria-label", "Series: click hides or shows, double click or Shift shows only this one");
    this.panels = element("div", "panels", root);
    this.tip = element("div", "tip", root);
    this.tip.setAttribute("role", "status");
    this.tip.hidden = true;
    this.observer = new ResizeObserver(() => this.resize());
    this.show(0);
    this.observer.observe(this.panels);
  }

  read(data) {
    this.figure = data;
  }

  control(head) {
    const { views, choice: title } = this.figure;
    if (views.length > 1) choice(head, title, views.map((v) => v.label), 0, (i) => this.show(i));
  }

  get charts() {
    return this.figure.views[this.view].charts;
  }

  /** Series and levels of the view, each once, in their order. */
  get entries() {
    const found = new Map();
    for (const chart of this.charts) for (const s of chart.series) if (!found.has(s.name)) found.set(s.name, s);
    for (const chart of this.charts) for (const l of chart.levels) if (!found.has(l.name)) found.set(l.name, { ...l, level: true });
    return [...found.values()];
  }

  show(view) {
    this.view = view;
    this.root.dataset.view = this.figure.views[view].label;
    this.drawLegend();
    this.draw();
  }

  resize() {
    const width = Math.floor(this.panels.firstElementChild?.clientWidth ?? 0);
    if (width && width !== this.width) this.draw();
  }

  draw() {
    this.leave();
    this.panels.replaceChildren();
    const few = this.entries.filter((e) => !e.level && e.low.length).length <= FEW;
    this.root.classList.toggle("few", few);
    const panels = this.charts.map((chart) => {
      const panel = element("div", "panel", this.panels);
      element("h4", "", panel, chart.title);
      return panel;
    });
    this.width = Math.floor(panels[0]?.clientWidth ?? 0);
    this.charts.forEach((chart, i) => this.drawPanel(panels[i], chart, few));
    this.update();
  }

  drawPanel(panel, chart, few) {
    if (!chart.series.length) {
      element("p", "empty", panel, chart.empty);
      return;
    }
    const drawn = drawChart(chart, this.width, few, `clip-${(charts += 1)}`);
    const { svg } = drawn;
    svg.setAttribute("tabindex", "0");
    panel.append(svg);
    const point = (event) => this.point(drawn, chart, this.nearest(drawn, event));
    svg.addEventListener("pointermove", point);
    svg.addEventListener("pointerdown", point);
    svg.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && this.leave());
    svg.addEventListener("blur", () => this.leave());
    svg.addEventListener("keydown", (event) => this.step(drawn, chart, event));
  }

  drawLegend() {
    this.legend.replaceChildren();
    for (const entry of this.entries) {
      const button = element("button", "key", this.legend);
      button.type = "button";
      button.dataset.series = entry.name;
      button.title = "Click: hide or show. Double click: only this one.";
      button.append(swatch(entry));
      element("span", "", button, entry.name);
      button.addEventListener("click", (event) => (event.shiftKey ? this.only(entry.name) : this.toggle(entry.name)));
      button.addEventListener("dblclick", () => this.only(entry.name));
      for (const type of ["pointerenter", "focus"]) button.addEventListener(type, () => this.emphasise(entry.name, true));
      for (const type of ["pointerleave", "blur"]) button.addEventListener(type, () => this.emphasise(null));
    }
    const all = element("button", "key all", this.legend, "Show all");
    all.type = "button";
    all.addEventListener("click", () => {
      this.hidden.clear();
      this.update();
    });
  }

  toggle(name) {
    if (!this.hidden.delete(name)) this.hidden.add(name);
    this.update();
  }

  only(name) {
    const others = this.entries.map((e) => e.name).filter((n) => n !== name);
    this.hidden = new Set(others);
    this.update();
  }

  update() {
    for (const group of this.panels.querySelectorAll("[data-series]")) group.classList.toggle("off", this.hidden.has(group.dataset.series));
    for (const button of this.legend.querySelectorAll("[data-series]")) button.setAttribute("aria-pressed", String(!this.hidden.has(button.dataset.series)));
    this.legend.querySelector(".all").hidden = !this.entries.some((e) => this.hidden.has(e.name));
    this.leave();
  }

  /** Bring one series to the front; `dim` also sets the others back. */
  emphasise(name, dim = false) {
    this.panels.classList.toggle("dimmed", dim && !this.hidden.has(name));
    for (const group of this.panels.querySelectorAll("[data-series]")) group.classList.toggle("on", group.dataset.series === name);
  }

  nearest(drawn, event) {
    const box = drawn.svg.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let [best, least] = [null, REACH];
    for (const point of drawn.points) {
      const distance = Math.hypot(point.px - x, point.py - y);
      if (distance < least && !this.hidden.has(point.series.name)) [best, least] = [point, distance];
    }
    return best;
  }

  point(drawn, chart, point) {
    if (!point) {
      this.leave();
      return;
    }
    if (this.current && this.current.drawn !== drawn) this.leave();
    this.current = { drawn, point };
    const ring = drawn.svg.querySelector(".ring");
    ring.classList.remove("off");
    ring.setAttribute("cx", point.px);
    ring.setAttribute("cy", point.py);
    this.emphasise(point.series.name);
    this.showTip(chart, point);
    this.placeTip(drawn.svg, point);
  }

  showTip(chart, point) {
    const { series, i } = point;
    this.tip.replaceChildren();
    const head = element("p", "tip-name", this.tip);
    head.append(swatch(series));
    element("span", "", head, this.named(point));
    const list = element("dl", "", this.tip);
    for (const [name, value] of this.readings(chart, point)) {
      element("dt", "", list, name);
      element("dd", "", list, value);
    }
    if (series.notes.length) element("p", "", this.tip, series.notes[i]);
    this.tip.hidden = false;
  }

  /** What a point is called, and what is read out of it. */
  named({ series }) {
    return series.name;
  }

  readings(chart, { series, i }) {
    const found = [[chart.x.label, readable(series.x[i])], [chart.y.label, readable(series.y[i])]];
    const banded = series.low.length && series.low[i] !== series.high[i];
    if (banded) found.push([this.figure.band, `${readable(series.low[i])} – ${readable(series.high[i])}`]);
    return found;
  }

  placeTip(svg, point) {
    const [own, box] = [this.root.getBoundingClientRect(), svg.getBoundingClientRect()];
    const [x, y] = [box.left - own.left + point.px, box.top - own.top + point.py];
    const { offsetWidth: width, offsetHeight: height } = this.tip;
    const left = Math.min(Math.max(0, x - width / 2), own.width - width);
    this.tip.style.left = `${left}px`;
    const above = box.top + point.py - height - 14 > BAR;
    this.tip.style.top = `${above ? y - height - 14 : y + 18}px`;
  }

  leave() {
    this.tip.hidden = true;
    this.emphasise(null);
    for (const ring of this.panels.querySelectorAll(".ring")) ring.classList.add("off");
    this.current = null;
  }

  /** Arrow keys: along a series, and from one series to the next. */
  step(drawn, chart, event) {
    const along = { ArrowRight: 1, ArrowLeft: -1 }[event.key] ?? 0;
    const across = { ArrowDown: 1, ArrowUp: -1 }[event.key] ?? 0;
    if (event.key === "Escape") this.leave();
    const points = drawn.points.filter((p) => !this.hidden.has(p.series.name));
    if (!(along || across) || !points.length) return;
    event.preventDefault();
    const now = this.current?.point;
    if (!now) {
      this.point(drawn, chart, points[0]);
      return;
    }
    const names = [...new Set(points.map((p) => p.series.name))];
    const name = names[(names.indexOf(now.series.name) + across + names.length) % names.length];
    const own = points.filter((p) => p.series.name === name);
    const place = across ? closest(own, now.px) : own.findIndex((p) => p.i === now.i) + along;
    this.point(drawn, chart, own[(place + own.length) % own.length]);
  }
}

function closest(points, px) {
  return points.reduce((best, p, i) => (Math.abs(p.px - px) < Math.abs(points[best].px - px) ? i : best), 0);
}

/** A short piece of a series, for the legend. */
function swatch(entry) {
  const svg = svgNode("svg", { width: 30, height: 14, class: "swatch", "aria-hidden": "true" });
  if (entry.level) {
    const group = svgNode("g", { class: entry.faint ? "level faint" : "level" }, svg);
    svgNode("line", { x1: 1, x2: 29, y1: 7, y2: 7 }, group);
    return svg;
  }
  const group = dress(svgNode("g", { class: `series ${entry.kind}` }, svg), entry);
  if (entry.kind !== "points") svgNode("path", { class: "curve", d: "M1,7H29" }, group);
  if (marked(entry)) svgNode("path", { class: "marker", d: markerPath({ ...entry, size: LEGEND_SIZE }), transform: "translate(15,7)" }, group);
  return svg;
}

for (const root of document.querySelectorAll(".figure:not(.codes)")) new FigureView(root);
