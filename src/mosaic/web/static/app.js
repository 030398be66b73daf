// The overview: all runs as they change, and one of them closely. Speaks the same API as the command line.

import { drawCurve } from "/static/plot.js";

const API = "/api/v1";
const REFRESH_MS = 1000;
const LOG_TAIL_BYTES = 8192;
// What can be asked of a run in which state.
const POSSIBLE = {
  pause: ["RUNNING"],
  resume: ["PAUSED", "CANCELLED", "FAILED", "LOST"],
  checkpoint: ["RUNNING", "PAUSED"],
  cancel: ["QUEUED", "STARTING", "RUNNING", "PAUSED"],
  retry: ["SUCCEEDED", "CANCELLED", "FAILED", "LOST"],
};
const ACTIVE = ["STARTING", "RUNNING", "PAUSED"];

const find = (selector) => document.querySelector(selector);
const runs = new Map();
let selected = location.hash.slice(1);

async function ask(path, options) {
  const response = await fetch(API + path, options);
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

function element(name, text = "", className = "") {
  const node = document.createElement(name);
  node.textContent = text;
  if (className) node.className = className;
  return node;
}

function drawRuns() {
  const rows = [...runs.values()].sort((a, b) => (a.run_id < b.run_id ? 1 : -1)).map((run) => {
    const row = element("tr");
    row.tabIndex = 0;
    row.ariaSelected = String(run.run_id === selected);
    row.dataset.run = run.run_id;
    const progress = element("td");
    if (run.progress === null) progress.textContent = run.step ?? "";
    else {
      const bar = element("progress");
      bar.value = run.progress;
      bar.title = `${run.step} of ${run.total_steps}`;
      progress.append(bar);
    }
    row.append(
      element("td", run.name), element("td", run.worker), element("td", run.state, `state-${run.state}`), progress,
      element("td", run.started ? new Date(run.started * 1000).toLocaleTimeString() : ""),
    );
    return row;
  });
  const focused = document.activeElement?.dataset?.run;
  find("#runs tbody").replaceChildren(...rows);
  rows.find((row) => row.dataset.run === focused)?.focus();
  find("#runs .empty").hidden = rows.length > 0;
}

function drawDetail() {
  const run = runs.get(selected);
  find("#detail").hidden = !run;
  if (!run) return;
  find("#detail h2").textContent = `${run.name} · ${run.state}`;
  const parts = [
    run.detail, run.exit?.message, run.step === null ? null : `step ${run.step} of ${run.total_steps ?? "?"}`,
    run.rate ? `${run.rate.toFixed(0)} steps/s` : null, `attempt ${run.attempt}`, run.folder,
  ];
  find("#detail .facts").textContent = parts.filter(Boolean).join(" · ");
  for (const button of document.querySelectorAll("#detail button")) {
    button.disabled = !POSSIBLE[button.dataset.action].includes(run.state);
  }
}

async function refreshDetail() {
  const run = runs.get(selected);
  if (!run) return;
  const path = `/runs/${run.run_id}`;
  const [{ series }, log] = await Promise.all([
    ask(`${path}/series`), ask(`${path}/logs?offset=-${LOG_TAIL_BYTES}`),
  ]);
  if (run.run_id !== selected) return;
  const select = find("#detail select");
  const names = series.map((item) => item.name);
  if (names.join() !== [...select.options].map((option) => option.value).join()) {
    const before = select.value;
    select.replaceChildren(...names.map((name) => new Option(name, name)));
    select.value = names.includes(before) ? before : names.find((name) => name.includes("return")) ?? names[0] ?? "";
  }
  const pre = find("#detail pre");
  const atEnd = pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 4;
  pre.textContent = log.text || "(nothing yet)";
  if (atEnd) pre.scrollTop = pre.scrollHeight;
  const points = select.value
    ? (await ask(`${path}/plot?max_points=800&name=${encodeURIComponent(select.value)}`)).points : [];
  if (run.run_id === selected) drawCurve(find("#detail canvas"), points);
  await refreshFrame(path);
}

async function refreshFrame(path) {
  const image = find("#detail .frame");
  const { streams } = await ask(`${path}/streams`);
  image.hidden = streams.length === 0;
  if (streams.length > 0) {
    image.src = `${API}${path}/streams/${encodeURIComponent(streams[0].name)}/frame.png?t=${Date.now()}`;
  }
}

function select(runId) {
  selected = runId;
  history.replaceState(null, "", `#${runId}`);
  find("#detail output").textContent = "";
  drawRuns();
  drawDetail();
  refreshDetail().catch(tell);
}

function tell(error) {
  find("#detail output").textContent = error.message;
}

async function follow() {
  const socket = new WebSocket(`ws://${location.host}${API}/events`);
  socket.onopen = async () => {
    find("#connection").textContent = "live";
    const { runs: found } = await ask("/runs?limit=500");
    runs.clear();
    for (const run of found) runs.set(run.run_id, run);
    drawRuns();
    if (!selected && found.length > 0) select(found[0].run_id);
    else drawDetail();
    refreshDetail().catch(tell);
  };
  socket.onmessage = (event) => {
    const message = JSON.parse(event.data);
    if (message.removed) runs.delete(message.removed);
    else runs.set(message.run.run_id, message.run);
    drawRuns();
    drawDetail();
  };
  socket.onclose = () => {
    find("#connection").textContent = "the daemon does not answer; trying again";
    setTimeout(follow, REFRESH_MS);
  };
}

find("#runs tbody").addEventListener("click", (event) => select(event.target.closest("tr").dataset.run));
find("#runs tbody").addEventListener("keydown", (event) => {
  if (event.key === "Enter") select(event.target.closest("tr").dataset.run);
});
find("#detail select").addEventListener("change", () => refreshDetail().catch(tell));
find("#detail .actions").addEventListener("click", async (event) => {
  const action = event.target.dataset.action;
  if (!action) return;
  try {
    await ask(`/runs/${selected}/${action}`, { method: "POST" });
    find("#detail output").textContent = `${action}: asked for`;
  } catch (error) {
    tell(error);
  }
});
setInterval(() => {
  if (!document.hidden && ACTIVE.includes(runs.get(selected)?.state)) refreshDetail().catch(tell);
}, REFRESH_MS);
follow();
