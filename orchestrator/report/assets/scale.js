// Scales, ticks and number formats.
"use strict";

/** A function from values to pixels; `back` is its inverse. */
function scaleOf(axis, view, from, to) {
  const forth = axis.log ? Math.log10 : (v) => v;
  const [a, b] = view.map(forth);
  const at = (v) => from + ((to - from) * (forth(v) - a)) / (b - a);
  at.back = (p) => {
    const u = a + ((b - a) * (p - from)) / (to - from);
    return axis.log ? 10 ** u : u;
  };
  return at;
}

/** About `count` round values within the view. */
function ticksOf(axis, [low, high], count) {
  if (axis.names.length) return axis.names.map((_, i) => i).filter((i) => i >= low && i <= high);
  if (axis.log && high / low > 8) {
    const found = [];
    const decades = Math.log10(high / low);
    const steps = decades > 4 ? [1] : decades > 2 ? [1, 3] : [1, 2, 5];
    for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e++)
      for (const m of steps) if (m * 10 ** e >= low && m * 10 ** e <= high) found.push(m * 10 ** e);
    return found;
  }
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  let step = [1, 2, 2.5, 5, 10].find((m) => m * power >= rough) * power;
  if (axis.unit === "cycle") step = Math.max(1, Math.round(step));
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) found.push(i * step + 0);
  return found;
}

/** A short text for a number: a percentage if the axis says so. */
function textOf(axis, value, exact = false) {
  if (value === null || Number.isNaN(value)) return "-";
  if (axis.names.length) return axis.names[value] ?? "";
  if (axis.unit === "cycle") return Math.round(value).toLocaleString("en");
  if (axis.unit === "%") return `${Number((100 * value).toFixed(exact ? 2 : 1))}%`;
  if (value !== 0 && (Math.abs(value) >= 1e5 || Math.abs(value) < 1e-3)) return value.toExponential(exact ? 2 : 0);
  return String(Number(value.toPrecision(exact ? 4 : 3)));
}

/** The first index whose x is at least `value`, then whichever neighbour is nearer. */
function nearestIndex(xs, value) {
  let low = 0;
  let high = xs.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (xs[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low > 0 && value - xs[low - 1] < xs[low] - value ? low - 1 : low;
}
