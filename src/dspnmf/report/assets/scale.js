"use strict";
// Scales and ticks: from numbers to pixels, and which numbers are worth a label.

const SUPERSCRIPTS = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

function powerOfTen(exponent) {
  return "10" + [...String(exponent)].map((c) => SUPERSCRIPTS[c]).join("");
}

/** A number for a tooltip: four significant digits, powers of ten where plain digits would be long. */
function readable(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e-4 && size < 1e5) return String(Number(value.toPrecision(4))).replace("-", "−");
  const exponent = Math.floor(Math.log10(size) + 1e-9);
  const mantissa = Number((value / 10 ** exponent).toPrecision(3));
  return mantissa === 1 ? powerOfTen(exponent) : `${mantissa} · ${powerOfTen(exponent)}`.replace("-", "−");
}

/** The label of a tick: its digits, or a power of ten where they would be too many. */
function tickLabel(value, digits = 0) {
  const long = Math.abs(value) >= 1e5 || (value !== 0 && Math.abs(value) < 1e-5);
  return long ? readable(value) : (digits ? value.toFixed(digits) : String(value)).replace("-", "−");
}

/** Round steps (1, 2 or 5 times a power of ten) between low and high, at most `most` of them. */
function linearTicks(low, high, most) {
  const rough = (high - low) / Math.max(1, most);
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * [1, 2, 5, 10].find((factor) => factor * unit >= rough * 0.999);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i += 1) {
    ticks.push({ value: i * step, label: tickLabel(i * step, digits) });
  }
  return ticks;
}

/** Powers of ten; over a short range also their double and fivefold. */
function logTicks(low, high, most) {
  const [first, last] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
  if (last - first >= 2) {
    const stride = Math.ceil((last - first + 1) / Math.max(2, most));
    const ticks = [];
    for (let e = first; e <= last; e += 1) {
      if (e % stride === 0) ticks.push({ value: 10 ** e, label: e === 0 ? "1" : e === 1 ? "10" : powerOfTen(e) });
    }
    return ticks;
  }
  const found = [];
  for (let e = first - 1; e <= last; e += 1) {
    for (const factor of [1, 2, 5]) {
      const value = Number(`${factor}e${e}`);
      if (value >= low * 0.999 && value <= high * 1.001) found.push({ value, label: tickLabel(value) });
    }
  }
  return found.length >= 2 ? found : linearTicks(low, high, Math.min(most, 4)).filter((tick) => tick.value > 0);
}

/** The scale of one axis over some values, onto the pixels [from, to]; zeros of a log x axis are drawn next to it. */
function makeScale(axis, values, from, to, zeroGap) {
  let known = values.filter((v) => Number.isFinite(v) && (!axis.log || v > 0));
  if (axis.low !== null) known = known.map((v) => Math.max(v, axis.low));
  if (!known.length) known = axis.log ? [1, 10] : [0, 1];
  const hasZero = axis.log && zeroGap > 0 && values.some((v) => v === 0);
  const forward = axis.log ? Math.log10 : (v) => v;
  let [low, high] = [Math.min(...known), Math.max(...known)].map(forward);
  if (high - low < 1e-9) {
    const spread = axis.log ? 0.5 : Math.max(Math.abs(high) * 0.05, 0.01);
    [low, high] = [low - spread, high + spread];
  }
  const begin = hasZero ? from + Math.sign(to - from) * zeroGap : from;
  const scale = (v) => {
    if (hasZero && v === 0) return from;
    return begin + ((forward(v) - low) / (high - low)) * (to - begin);
  };
  const [bottom, top] = axis.log ? [10 ** low, 10 ** high] : [low, high];
  scale.hasZero = hasZero;
  scale.begin = begin;
  scale.shows = (v) => v !== null && Number.isFinite(v) && (!axis.log || v > 0 || (hasZero && v === 0));
  scale.inside = (v) => scale.shows(v) && (v === 0 && hasZero ? true : v >= bottom * (1 - 1e-9) - 1e-12 && v <= top * (1 + 1e-9) + 1e-12);
  scale.ticks = (most) => {
    const given = axis.ticks.filter((v) => v >= bottom && v <= top);
    let ticks = given.length ? given.map((value) => ({ value, label: String(value) }))
      : axis.log ? logTicks(bottom, top, most) : linearTicks(bottom, top, most);
    if (hasZero) ticks = [{ value: 0, label: "0" }, ...ticks];
    return ticks;
  };
  return scale;
}
