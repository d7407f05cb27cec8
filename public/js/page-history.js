// What a path held at any moment that the log reaches, who wrote there, what is different now, and the way back.

import { session, link } from "./session.js";
import { feed, concerns, writerOf } from "./feed.js";
import { h, visible, toast, formatCount, formatMoment } from "./dom.js";
import { join } from "./keys.js";
import { stringify } from "./json.js";
import { differences, diffList, confirmChanges, replace } from "./edit.js";

const SETTLE_MS = 200; // after the slider has moved, and after a write
const SLIDER_STEPS = 1000;
const PAGE = 100; // writes
const KEPT_WRITES = 1000; // more are asked for again
const SHOWN_UNITS = 100_000; // of a value as text
const LINE_UNITS = 2000; // of a line of it

export class Page {
	constructor(place) {
		const button = (label, onclick) => h("button", { onclick }, label);
		this.title = h("h2.grow");
		this.slider = h("input.grow", { type: "range", list: "write-marks", label: "Moment", oninput: () => this.slid() });
		this.marks = h("datalist", { id: "write-marks" });
		this.when = h("output.grow");
		this.reach = h("span.hint");
		this.problem = h("p.problem", { role: "alert" });
		this.older = button("‹ Older", () => this.step(1));
		this.newer = button("Newer ›", () => this.step(-1));
		this.writes = h("ol.writes");
		this.more = button("Earlier writes", () => this.refresh(this.list.at(-1).sequence));
		this.value = h("pre.snippet", { tabIndex: 0 });
		this.changes = h("div");
		this.restore = h("button.primary", { onclick: () => this.askRestore() }, "Restore…");
		this.toData = h("a", "Data");
		this.element = h("div.page",
			h("section.panel", h("div.together", this.title, this.toData), h("div.together.moment", this.older, this.slider, this.marks, this.newer, button("Now", () => this.go(null))),
				h("p.together", this.when, this.reach), this.problem),
			h("div.columns", h("section.panel.tall", h("h2", "Writes"), h("div.scroll", { tabIndex: 0, role: "region", label: "Writes" }, this.writes, this.more)), h("section.panel", h("h2", "Then"), this.value),
				h("section.panel", h("div.together", h("h2.grow", "Different now"), this.restore), this.changes)));
		this.ends = new AbortController();
		feed.addEventListener("records", ({ detail }) => detail.some((record) => concerns(record, this.keys)) && this.soon(), { signal: this.ends.signal });
		this.update(place);
	}

	/** Shows another path or moment; `at` is in milliseconds, null for now. */
	update({ keys, parameters }) {
		Object.assign(this, { keys, list: [], hasMore: false, at: Number(parameters.get("at")) || null, now: undefined, then: undefined, end: undefined });
		this.title.textContent = `History of ${visible(join(keys), 200)}`;
		this.toData.href = link("data", keys);
		this.refresh();
		return true;
	}

	close() {
		this.ends.abort();
		this.reading?.abort();
		clearTimeout(this.timer);
	}

	soon() {
		this.timer ??= setTimeout(() => {
			this.timer = undefined;
			this.refresh();
		}, SETTLE_MS);
	}

	/** Reads what is there now with the latest writes, or those before a sequence, and what was there at the moment. */
	async refresh(before) {
		this.reading?.abort();
		const { signal } = (this.reading = new AbortController());
		const { at } = this;
		const ask = (parameters) => session.history(join(this.keys), parameters, signal);
		try {
			const { at: end, since, value: now, writes, more } = await ask({ limit: PAGE, ...(before && { before }) });
			const known = this.list.findIndex(({ sequence }) => sequence === writes.at(-1)?.sequence);
			if (before || known < 0) this.hasMore = more;
			this.list = before ? [...this.list, ...writes] : [...writes, ...(known < 0 ? [] : this.list.slice(known + 1))];
			if (!before && this.list.splice(KEPT_WRITES).length) this.hasMore = true;
			Object.assign(this, { now, end, since: since ?? end });
			this.then = at === null ? now : (await ask({ at, limit: 1 })).value;
			this.problem.textContent = "";
		} catch (error) {
			if (signal.aborted) return;
			this.then = undefined;
			this.problem.textContent = error.message;
		}
		if (!signal.aborted) this.draw();
	}

	go(at) {
		this.at = at;
		history.replaceState(null, "", link("history", this.keys) + (at === null ? "" : `?at=${at}`));
		this.drawMoment();
		this.soon();
	}

	slid() {
		const { value, step } = this.slider;
		this.go(value > this.end - step ? null : Number(value));
	}

	/** The place in the list of the write that made what is shown; -1 before all of them. */
	get shown() {
		return this.list.findIndex(({ time }) => this.at === null || time <= this.at);
	}

	step(offset) {
		this.go(this.list.at(this.shown < 0 ? -1 : this.shown + offset).time);
	}

	drawMoment() {
		const { end, since, at, list, shown } = this;
		const words = at === null ? "now" : formatMoment(at);
		Object.assign(this.slider, { min: since, max: end, step: Math.max(1, Math.floor((end - since) / SLIDER_STEPS)), value: at ?? end, ariaValueText: words });
		this.when.textContent = words;
		this.reach.textContent = `The log reaches back to ${formatMoment(since)}.`;
		this.older.disabled = shown < 0 || shown === list.length - 1;
		this.newer.disabled = shown === 0 || list.length === 0;
		[...this.writes.children].forEach((row, place) => (row.firstChild.ariaPressed = place === shown));
	}

	draw() {
		const { list, keys, then, now } = this;
		if (this.end === undefined) return;
		this.marks.replaceChildren(...list.map(({ time }) => h("option", { value: time })));
		this.writes.replaceChildren(...list.map((write) => h("li", h("button", { onclick: () => this.go(write.time) }, h("time", formatMoment(write.time)), h("b", writerOf(write)),
			h("span.write-path", visible(write.path === join(keys) ? "this node" : write.path, 80), write.count > 1 && ` and ${formatCount(write.count - 1)} more`)))));
		this.more.hidden = !this.hasMore;
		this.drawMoment();
		const changes = then === undefined ? [] : differences(then, now, keys);
		this.restore.disabled = changes.length === 0;
		this.value.textContent = then === undefined ? "" : then === null ? "Nothing was here." : stringify(then, 2).slice(0, SHOWN_UNITS).split("\n").map((line) => visible(line, LINE_UNITS)).join("\n");
		this.changes.replaceChildren(changes.length ? diffList(changes) : h("p.hint", then === undefined ? "" : "Nothing: it is as it was."));
	}

	/** Writes the value of the moment over what is shown as now, as one step. */
	async askRestore() {
		const { keys, then, now, at } = this;
		const path = join(keys);
		const label = `Restore ${visible(path, 60)} of ${formatMoment(at)}`;
		if (!(await confirmChanges(label, differences(now, then, keys)))) return;
		await replace({ path }, now, then, label, () => { toast("Restored. Undo is under Data."); this.go(null); this.soon(); });
	}
}
