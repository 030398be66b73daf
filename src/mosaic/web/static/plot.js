// One curve on a canvas: the mean as a line, the range between minimum and maximum as a band behind it.

const MARGIN = { left: 64, right: 12, top: 12, bottom: 28 };

/**
 * @param {HTMLCanvasElement} canvas
 * @param {{step_min: number, step_max: number, min: number, max: number, mean: number}[]} points
 */
export function drawCurve(canvas, points) {
  const context = canvas.getContext("2d");
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.font = "12px system-ui, sans-serif";
  context.fillStyle = colour("--dim");
  const known = points.filter((point) => Number.isFinite(point.mean));
  if (known.length === 0) {
    context.fillText("no values yet", MARGIN.left, canvas.height / 2);
    return;
  }
  const scale = makeScale(canvas, known);
  for (const value of ticks(scale.low, scale.high)) {
    context.fillText(short(value), 6, scale.y(value) + 4);
    context.fillRect(MARGIN.left, scale.y(value), canvas.width - MARGIN.left - MARGIN.right, 0.5);
  }
  context.fillText(short(scale.first), MARGIN.left, canvas.height - 8);
  const last = short(scale.last);
  context.fillText(last, canvas.width - MARGIN.right - context.measureText(last).width, canvas.height - 8);
  context.fillStyle = colour("--band");
  context.beginPath();
  for (const point of known) context.lineTo(scale.x(point), scale.y(point.max));
  for (const point of [...known].reverse()) context.lineTo(scale.x(point), scale.y(point.min));
  context.fill();
  context.strokeStyle = colour("--accent");
  context.lineWidth = 1.5;
  context.beginPath();
  for (const point of known) context.lineTo(scale.x(point), scale.y(point.mean));
  context.stroke();
}

function makeScale(canvas, points) {
  const first = points[0].step_min;
  const last = points[points.length - 1].step_max;
  let low = Math.min(...points.map((point) => point.min));
  let high = Math.max(...points.map((point) => point.max));
  if (low === high) [low, high] = [low - 1, high + 1];
  const width = canvas.width - MARGIN.left - MARGIN.right;
  const height = canvas.height - MARGIN.top - MARGIN.bottom;
  return {
    first, last, low, high,
    x: (point) => MARGIN.left + (((point.step_min + point.step_max) / 2 - first) / Math.max(1, last - first)) * width,
    y: (value) => MARGIN.top + ((high - value) / (high - low)) * height,
  };
}

function ticks(low, high) {
  const rough = (high - low) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const unit = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const found = [];
  for (let value = Math.ceil(low / unit) * unit; value <= high; value += unit) found.push(value);
  return found;
}

function short(value) {
  const size = Math.abs(value);
  if (size >= 1e9) return `${+(value / 1e9).toPrecision(3)}G`;
  if (size >= 1e6) return `${+(value / 1e6).toPrecision(3)}M`;
  if (size >= 1e4) return `${+(value / 1e3).toPrecision(3)}k`;
  return String(+value.toPrecision(3));
}
