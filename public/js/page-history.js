// What a path held at any moment, who wrote there, what is different now, and the way back.

import { session, link } from "./session.js";
import { feed, concerns, writeParts, journalReader } from "./feed.js";
import { h, button, panel, visible, toast, formatMoment } from "./dom.js";
import { join } from "./keys.js";
import { stringify } from "./json.js";
import { differences, diffList, confirmChanges, replace } from "./edit.js";

const SETTLE_MS = 200; // after the slider has moved, and after a write
const SLIDER_STEPS = 1000;
const PAGE = 100; // writes
const KEPT_WRITES = 1000; // more are asked for again
const SHOWN_UNITS = 100_000; // of a value as text
const LINE_UNITS = 2000; // of a line of it

const title = h("h2.grow");
const slider = h("input.grow", { type: "range", label: "Moment", oninput: () => go(slider.value > end - slider.step ? null : Number(slider.value)) });
const when = h("output.grow");
const reach = h("span.hint");
const problem = h("p.problem", { role: "alert" });
const listed = h("ol.writes");
const more = button("Earlier writes", () => journal.now(writes.at(-1).sequence));
const value = h("pre.snippet", { tabIndex: 0 });
const changesElement = h("div");
const restore = button("Restore…", askRestore, ".primary");
const toData = h("a", "Data");
// `at` is the moment that is shown, null for now; `end` is when `now` was read.
let keys, at, writes, hasMore, now, then, end, since;

export const element = h("div.page",
	h("section.panel", h("div.together", title, toData), h("div.together.moment", slider, button("Now", () => go(null))),
		h("p.together", when, reach), problem),
	h("div.columns", panel("Writes", h("div.scroll", { tabIndex: 0, role: "region", label: "Writes" }, listed, more)), panel("Then", value), panel("Different now", changesElement, restore)));

export const close = () => journal.stop();

export function show({ keys: shownKeys, parameters }) {
	[keys, at, writes, hasMore] = [shownKeys, Number(parameters.get("at")) || null, [], false];
	now = then = end = undefined;
	title.textContent = `History of ${visible(join(keys), 200)}`;
	toData.href = link("data", keys);
	journal.now();
}

/** Reads what is there now, what was there at the moment, and the latest writes, or those before a sequence. */
const journal = journalReader(SETTLE_MS, async (signal, before) => {
	const moment = at;
	const ask = (parameters) => session.history(join(keys), parameters, signal);
	try {
		const answer = await ask({ limit: PAGE, ...(before && { before }) });
		const known = writes.findIndex(({ sequence }) => sequence === answer.writes.at(-1)?.sequence);
		if (before || known < 0) hasMore = answer.more;
		writes = before ? [...writes, ...answer.writes] : [...answer.writes, ...(known < 0 ? [] : writes.slice(known + 1))];
		if (!before && writes.splice(KEPT_WRITES).length) hasMore = true;
		[now, end, since] = [answer.value, answer.at, answer.since ?? answer.at];
		then = moment === null ? now : (await ask({ at: moment, limit: 1 })).value;
		problem.textContent = "";
	} catch (error) {
		if (signal.aborted) return;
		then = undefined;
		problem.textContent = error.message;
	}
	if (!signal.aborted) draw();
});

function go(moment) {
	at = moment;
	history.replaceState(null, "", link("history", keys) + (at === null ? "" : `?at=${at}`));
	drawMoment();
	journal.soon();
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
	listed.replaceChildren(...writes.map((write) => h("li", button(writeParts(write, join(keys)), () => go(write.time)))));
	more.hidden = !hasMore;
	drawMoment();
	const changes = then === undefined ? [] : differences(then, now, keys);
	restore.disabled = changes.length === 0;
	value.textContent = then === undefined ? "" : then === null ? "Nothing was here." : stringify(then, 2).slice(0, SHOWN_UNITS).split("\n").map((line) => visible(line, LINE_UNITS)).join("\n");
	changesElement.replaceChildren(changes.length ? diffList(changes) : h("p.hint", then === undefined ? "" : "Nothing: it is as it was."));
}

async function askRestore() {
	const path = join(keys);
	const label = `Restore ${visible(path, 60)} of ${formatMoment(at)}`;
	const [before, after] = [now, then];
	if (!(await confirmChanges(label, differences(before, after, keys)))) return;
	if (!(await replace({ path }, before, after, label))) return;
	toast("Restored. Undo is under Data.");
	go(null);
}

feed.addEventListener("records", ({ detail }) => element.isConnected && detail.some((record) => concerns(record, keys)) && journal.later());
