// Converts logged values to the lines of a chart: selects axis and runs, averages over seeds, and smooths.
const whole = (value) => Math.round(value).toLocaleString("en");
const passed = ([steps, values], step) => between(steps, values, step);
const AXES = {
  steps: { title: "step", least: 1, at: (run, step) => step, write: count, read: whole },
  epochs: { title: "epoch", at: (run, step) => passed(run.epochs, step), write: count, read: (epochs) => epochs.toFixed(2) },
  examples: { title: "training examples seen", least: 1, at: (run, step) => passed(run.epochs, step) * run.size, write: count, read: whole },
  seconds: { title: "wall time", at: (run, step) => passed(run.seconds, step), write: duration, read: duration },
};

// The linearly interpolated value at x, NaN outside of the points.
function between(xs, ys, x) {
  if (!xs.length || x < xs[0] || x > xs[xs.length - 1]) return NaN;
  let low = 0, high = xs.length - 1;
  while (high - low > 1) { const middle = (low + high) >> 1; if (xs[middle] <= x) low = middle; else high = middle; }
  return xs[high] === xs[low] ? ys[high] : ys[low] + ((x - xs[low]) / (xs[high] - xs[low])) * (ys[high] - ys[low]);
}

// Exponential moving average that starts at the first value, without a bias towards zero.
function smooth(ys, weight) {
  let sum = 0, mass = 0;
  return ys.map((y) => { sum = weight * sum + (1 - weight) * y; mass = weight * mass + (1 - weight); return sum / mass; });
}

// One run's line of a metric: x on the selected axis, y in percent if the metric is a share. Null without points.
function lineOf(group, run, metric, factor, axis) {
  if (!(metric in run.values)) return null;
  const [grid, values] = run.values[metric];
  const points = run.grids[grid].map((step, i) => [axis.at(run, step), values[i] * factor]).filter(([x]) => Number.isFinite(x));
  return points.length ? { group, name: run.name, xs: points.map(([x]) => x), raw: points.map(([, y]) => y) } : null;
}

// The mean of several runs at the points of the longest run, with the range from lowest to highest value.
function meanOf(lines) {
  if (lines.length < 2) return lines;
  const longest = lines.reduce((best, line) => (line.xs[line.xs.length - 1] > best.xs[best.xs.length - 1] ? line : best));
  const rows = longest.xs.map((x) => lines.map((line) => between(line.xs, line.raw, x)).filter(Number.isFinite));
  const mean = rows.map((row) => row.reduce((sum, y) => sum + y, 0) / row.length);
  const [low, high] = [Math.min, Math.max].map((extreme) => rows.map((row) => extreme(...row)));
  return [{ ...longest, name: `mean of ${lines.length}`, raw: mean, low, high }];
}

// All lines of a metric. `chosen(group, number)` returns whether the user has selected a run.
function linesOf(data, metric, { axis, weight, mean, chosen }) {
  const factor = data.metrics[metric].percent ? 100 : 1;
  const lines = data.groups.flatMap((group) => {
    const runs = group.runs.filter((_, number) => chosen(group, number)).map((run) => lineOf(group, run, metric, factor, axis)).filter(Boolean);
    return mean ? meanOf(runs) : runs;
  });
  return lines.map((line) => ({ ...line, ys: weight > 0 ? smooth(line.raw, weight) : line.raw }));
}
