// What a path held at any moment the journal reaches, who wrote there, what is different now, and the way back.

import { session, link } from "./session.js";
import { feed, concerns, writerOf } from "./feed.js";
import { h, panel, visible, toast, formatCount, formatMoment } from "./dom.js";
import { join } from "./keys.js";
import { stringify } from "./json.js";
import { differences, diffList, confirmChanges, replace } from "./edit.js";

const SETTLE_MS = 200; // after the slider has moved, and after a write
const PAUSE_FACTOR = 10; // between two readings, each of which may read the whole journal
const SETTLED_MS = 1000; // what was so long ago is kept
const SLIDER_STEPS = 1000;
const PAGE = 100; // writes
const KEPT_WRITES = 1000; // more are asked for again
const SHOWN_UNITS = 100_000; // of a value as text
const LINE_UNITS = 2000; // of a line of it

const button = (label, onclick) => h("button", { onclick }, label);
const title = h("h2.grow");
const slider = h("input.grow", { type: "range", label: "Moment", oninput: () => go(slider.value > end - slider.step ? null : Number(slider.value)) });
const when = h("output.grow");
const reach = h("span.hint");
const problem = h("p.problem", { role: "alert" });
const listed = h("ol.writes");
const more = button("Earlier writes", () => refresh(writes.at(-1).sequence));
const value = h("pre.snippet", { tabIndex: 0 });
const changesElement = h("div");
const restore = h("button.primary", { onclick: askRestore }, "Restore…");
const toData = h("a", "Data");
// `at` is the moment that is shown, in milliseconds, null for now; `end` is when `now` was read, `past` {moment, value}.
let keys, at, writes, hasMore, now, then, end, since, past, reading, timer, due, isReading, isStale, readUntil = 0, readMs = 0;

export const element = h("div.page",
	h("section.panel", h("div.together", title, toData), h("div.together.moment", slider, button("Now", () => go(null))),
		h("p.together", when, reach), problem),
	h("div.columns", panel("Writes", null, h("div.scroll", { tabIndex: 0, role: "region", label: "Writes" }, listed, more)), panel("Then", null, value), panel("Different now", restore, changesElement)));

export function close() {
	reading?.abort();
	clearTimeout(timer);
	timer = undefined;
}

export function show({ keys: shownKeys, parameters }) {
	[keys, at, writes, hasMore] = [shownKeys, Number(parameters.get("at")) || null, [], false];
	now = then = end = past = undefined;
	title.textContent = `History of ${visible(join(keys), 200)}`;
	toData.href = link("data", keys);
	refresh();
}

function soon(delay = SETTLE_MS) {
	if (timer !== undefined && due <= performance.now() + delay) return;
	clearTimeout(timer);
	due = performance.now() + delay;
	timer = setTimeout(() => {
		timer = undefined;
		refresh();
	}, delay);
}

/** After a write: behind the reading in progress, and seldom where readings take long. */
function readAgain() {
	isStale = isReading;
	if (!isReading) soon(Math.max(SETTLE_MS, readUntil + PAUSE_FACTOR * readMs - performance.now()));
}

async function pastAt(moment, ask) {
	if (past?.moment === moment) return past.value;
	const { value } = await ask({ at: moment, limit: 1 });
	if (end - moment > SETTLED_MS) past = { moment, value };
	return value;
}

/** Reads what is there now with the latest writes, or those before a sequence, and what was there at the moment. */
async function refresh(before) {
	reading?.abort();
	const { signal } = (reading = new AbortController());
	const moment = at;
	const began = performance.now();
	[isReading, isStale] = [true, false];
	const ask = (parameters) => session.history(join(keys), parameters, signal);
	try {
		const answer = await ask({ limit: PAGE, ...(before && { before }) });
		const known = writes.findIndex(({ sequence }) => sequence === answer.writes.at(-1)?.sequence);
		if (before || known < 0) hasMore = answer.more;
		writes = before ? [...writes, ...answer.writes] : [...answer.writes, ...(known < 0 ? [] : writes.slice(known + 1))];
		if (!before && writes.splice(KEPT_WRITES).length) hasMore = true;
		[now, end, since] = [answer.value, answer.at, answer.since ?? answer.at];
		then = moment === null ? now : await pastAt(moment, ask);
		problem.textContent = "";
	} catch (error) {
		if (signal.aborted) return;
		then = undefined;
		problem.textContent = error.message;
	}
	if (signal.aborted) return;
	isReading = false;
	readUntil = performance.now();
	readMs = readUntil - began;
	draw();
	if (isStale) readAgain();
}

function go(moment) {
	at = moment;
	history.replaceState(null, "", link("history", keys) + (at === null ? "" : `?at=${at}`));
	drawMoment();
	soon();
}

function drawMoment() {
	const words = at === null ? "now" : formatMoment(at);
	Object.assign(slider, { min: since, max: end, step: Math.max(1, Math.floor((end - since) / SLIDER_STEPS)), value: at ?? end, ariaValueText: words });
	when.textContent = words;
	reach.textContent = `The journal reaches back to ${formatMoment(since)}.`;
	// The write that made what is shown; -1 before all of them.
	const current = writes.findIndex(({ time }) => at === null || time <= at);
	[...listed.children].forEach((row, number) => (row.firstChild.ariaPressed = number === current));
}

function draw() {
	if (end === undefined) return;
	listed.replaceChildren(...writes.map((write) => h("li", h("button", { onclick: () => go(write.time) }, h("time", formatMoment(write.time)), h("b", writerOf(write)),
		h("span.write-path", visible(write.path === join(keys) ? "this node" : write.path, 80), write.count > 1 && ` and ${formatCount(write.count - 1)} more`)))));
	more.hidden = !hasMore;
	drawMoment();
	const changes = then === undefined ? [] : differences(then, now, keys);
	restore.disabled = changes.length === 0;
	value.textContent = then === undefined ? "" : then === null ? "Nothing was here." : stringify(then, 2).slice(0, SHOWN_UNITS).split("\n").map((line) => visible(line, LINE_UNITS)).join("\n");
	changesElement.replaceChildren(changes.length ? diffList(changes) : h("p.hint", then === undefined ? "" : "Nothing: it is as it was."));
}

/** Writes the value of the moment over what is shown as now, as one step. */
async function askRestore() {
	const path = join(keys);
	const label = `Restore ${visible(path, 60)} of ${formatMoment(at)}`;
	const [before, after] = [now, then];
	if (!(await confirmChanges(label, differences(before, after, keys)))) return;
	if (!(await replace({ path }, before, after, label))) return;
	toast("Restored. Undo is under Data.");
	go(null);
}

feed.addEventListener("records", ({ detail }) => element.isConnected && detail.some((record) => concerns(record, keys)) && readAgain());
