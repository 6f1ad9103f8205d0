"use strict";
// The scatter plot of the codes: the reader chooses two axes and what colours mean; the figure does the rest.

const NO_VALUE = "no value";
const READ = 8; // columns that are read out, and the one that gives the colours
const LOOKS = [0, 3, 5, 6, 7, 2, 8, 1, 4, 9, 10, 11]; // styles, colours first

class CodesView extends FigureView {
  read(data) {
    this.data = data;
    [this.across, this.up] = data.start;
    this.colour = data.colour;
    this.figure = { views: [{ label: "" }] };
  }

  control(head) {
    head.classList.add("picks");
    const { axes, columns } = this.data;
    this.pick(head, "Across", axes.map((name, i) => [name, i]), this.across, (i) => (this.across = i));
    this.pick(head, "Up", axes.map((name, i) => [name, i]), this.up, (i) => (this.up = i));
    const offered = columns.map((column, i) => [column.name, i]).filter(([, i]) => columns[i].classes.length);
    if (!offered.length) return;
    this.pick(head, "Colour", [...offered, ["none", -1]], this.colour, (i) => {
      this.colour = i;
      this.hidden.clear();
    });
  }

  pick(parent, title, options, chosen, set) {
    const label = element("label", "pick", parent);
    element("span", "", label, title);
    const select = element("select", "", label);
    for (const [name, value] of options) {
      const option = element("option", "", select, name);
      option.value = value;
      option.selected = value === chosen;
    }
    select.addEventListener("change", () => {
      set(Number(select.value));
      this.chart = null;
      this.show(0);
    });
  }

  get charts() {
    this.chart ??= this.makeChart();
    return [this.chart];
  }

  makeChart() {
    const { axes, values } = this.data;
    const axis = (i) => ({ label: axes[i], log: false, ticks: [], low: null });
    return { title: "", x: axis(this.across), y: axis(this.up), series: this.groups(values[this.across], values[this.up]), levels: [], height: 520 };
  }

  /** One series for every class of the chosen column, each from left to right. */
  groups(x, y) {
    const column = this.data.columns[this.colour];
    const classes = column ? column.classes : ["samples"];
    const members = classes.map(() => []);
    this.data.names.forEach((_, i) => members[column ? Math.min(column.of[i], classes.length - 1) : 0].push(i));
    return classes.map((name, number) => {
      const ids = members[number].sort((a, b) => x[a] - x[b] || y[a] - y[b]);
      const look = column?.ordered ? this.shade(name, number, classes) : { style: LOOKS[number % LOOKS.length] + LOOKS.length * Math.floor(number / LOOKS.length) };
      return { name, ids, ...look, x: ids.map((i) => x[i]), y: ids.map((i) => y[i]), kind: "points", size: this.data.size, low: [], high: [], notes: [], marks: [] };
    });
  }

  shade(name, number, classes) {
    const last = classes.length - (classes.at(-1) === NO_VALUE ? 2 : 1);
    return number > last ? { style: 11 } : { ramp: last > 0 ? number / last : 1 };
  }

  named({ series, i }) {
    return `${this.data.called} ${this.data.names[series.ids[i]]}`;
  }

  readings(chart, point) {
    const sample = point.series.ids[point.i];
    const value = (column) => (column.ordered ? this.number(column.values[sample]) : column.levels[column.of[sample]]);
    const listed = this.data.columns.filter((_, i) => i < READ || i === this.colour);
    return [...super.readings(chart, point), ...listed.map((column) => [column.name, value(column)])];
  }

  number(value) {
    return value === null ? NO_VALUE : readable(value);
  }
}

for (const root of document.querySelectorAll(".figure.codes")) new CodesView(root);
