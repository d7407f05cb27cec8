import { session, link } from "./session.js";
import { feed, isWrite } from "./feed.js";
import { h, svg, table, save, toast, visible, formatCount, formatBytes, formatTime, formatMoment } from "./dom.js";
import { join } from "./keys.js";
import { indexLine } from "./snippets.js";
import { showDenial } from "./edit.js";

const SECONDS = 120; // of the plots
const PLOT = 44; // pixels of height
const KEPT_TIMES = 2000; // latest operations whose times make the percentiles
const SLOW_LIMIT = 15;
const PATH_LIMIT = 500;

const METERS = [
	{ name: "writes", label: "Writes/s", counts: (record) => isWrite(record) && 1 },
	{ name: "reads", label: "Reads/s", counts: (record) => /read$/.test(record.name) && 1 },
	{ name: "pushes", label: "Pushes/s", counts: (record) => record.name === "listener-broadcast" && 1 },
	{ name: "bytes", label: "Pushed/s", counts: (record) => record.name === "listener-broadcast" && (record.bytes ?? 0), format: formatBytes },
	{ name: "denied", label: "Denied/s", counts: (record) => record.allowed === false && 1 },
];

export class Page {
	constructor() {
		this.meters = METERS.map((meter) => ({ ...meter, number: h("b"), plot: svg("path", {}), values: new Array(SECONDS).fill(0), now: 0 }));
		Object.assign(this, { times: [], slow: [], paths: new Map(), unindexed: new Map() });
		[this.timesElement, this.slowElement, this.pathsElement, this.unindexedElement, this.denialsElement] = Array.from({ length: 5 }, () => h("div"));
		const panel = (title, content) => h("section.panel", h("h2", title), content);
		this.state = h("span.hint", { role: "status" });
		this.element = h("div.page",
			h("div.together", h("h2", `Operations on ${session.namespace}`), this.state, h("span.space"), h("button", { onclick: (event) => this.backup(event.currentTarget) }, "Backup now")),
			h("div.grid", this.meters.map(({ label, number, plot }) => h("div.panel.meter", h("h3", label), number, svg("svg", { viewBox: `0 0 ${SECONDS} ${PLOT}`, preserveAspectRatio: "none", "aria-hidden": true }, plot))),
				h("div.panel.meter", h("h3", "Time of an operation"), this.timesElement)),
			h("div.columns", panel("Slowest operations", this.slowElement), panel("Costly paths", this.pathsElement), panel("Queries without an index", this.unindexedElement), panel("Latest denials", this.denialsElement)));
		this.ends = new AbortController();
		feed.addEventListener("records", (event) => event.detail.forEach((record) => this.take(record)), { signal: this.ends.signal });
		this.timer = setInterval(() => this.second(), 1000);
		this.second();
	}

	close() {
		this.ends.abort();
		clearInterval(this.timer);
	}

	take(record) {
		for (const meter of this.meters) meter.now += meter.counts(record) || 0;
		if (record.path && record.name !== "listener-broadcast") {
			const path = join(record.path);
			const entry = this.paths.get(path) ?? { path, count: 0, millis: 0, bytes: 0 };
			entry.count++;
			entry.millis += record.millis ?? 0;
			entry.bytes += record.bytes ?? 0;
			this.paths.delete(path);
			this.paths.set(path, entry);
			if (this.paths.size > PATH_LIMIT) this.paths.delete(this.paths.keys().next().value);
		}
		if (record.unIndexed && this.unindexed.size < 100) {
			const index = record.querySet?.[0]?.index;
			const order = index?.path ? index.path.join("/") : record.querySet?.[0]?.orderBy ?? "";
			this.unindexed.set(`${join(record.path)} ${order}`, { path: record.path, order, time: record.timestamp });
		}
		if (record.millis === undefined) return;
		this.times.push(record.millis);
		if (this.times.length > 2 * KEPT_TIMES) this.times = this.times.slice(-KEPT_TIMES);
		if (this.slow.length < SLOW_LIMIT || record.millis > this.slow.at(-1).millis) {
			this.slow.push(record);
			this.slow.sort((a, b) => b.millis - a.millis).splice(SLOW_LIMIT);
		}
	}

	second() {
		if (document.visibilityState !== "visible") return;
		this.state.textContent = feed.isLive ? "since this page is open" : "no stream of operations; trying again";
		for (const meter of this.meters) {
			meter.values.push(meter.now);
			meter.values.shift();
			meter.number.textContent = (meter.format ?? formatCount)(meter.now);
			meter.now = 0;
			const most = Math.max(1, ...meter.values);
			meter.plot.setAttribute("d", `M-1 ${PLOT + 1}${meter.values.map((value, place) => `L${place} ${PLOT - 1 - (value / most) * (PLOT - 3)}`).join("")}V${PLOT + 1}`);
		}
		const sorted = this.times.slice(-KEPT_TIMES).sort((a, b) => a - b);
		const at = (share) => `${(sorted[Math.ceil(sorted.length * share) - 1] ?? 0).toFixed(3)} ms`;
		this.timesElement.replaceChildren(h("dl", [["p50", 0.5], ["p99", 0.99], ["most", 1]].map(([name, share]) => [h("dt", name), h("dd", at(share))])));
		this.slowElement.replaceChildren(table(["time", "ms", "operation", "path"], this.slow.map((record) => [formatTime(record.timestamp), record.millis.toFixed(3), record.name, this.link(record.path)]), "No operation yet."));
		const costly = [...this.paths.values()].sort((a, b) => b.millis - a.millis).slice(0, SLOW_LIMIT);
		this.pathsElement.replaceChildren(table(["path", "count", "ms in all", "bytes"], costly.map(({ path, count, millis, bytes }) => [this.link(path.split("/").filter(Boolean)), formatCount(count), millis.toFixed(2), formatBytes(bytes)]), "No operation yet."));
		this.unindexedElement.replaceChildren(table(["path", "order", "add to the rules"], [...this.unindexed.values()].map(({ path, order }) => [this.link(path), visible(order, 60), indexLine(order)]), "None since this page is open."));
		this.listDenials();
	}

	async listDenials() {
		try {
			const { count, denials } = await session.denials();
			if (count === this.denialCount) return;
			this.denialCount = count;
			const rows = denials.slice(0, 50).map((entry) => [
				formatMoment(entry.time), entry.uid === null ? "not signed in" : visible(entry.uid, 60), visible(String(entry.denial.operation ?? ""), 40),
				visible(String(entry.denial.path ?? ""), 160), h("button.small", { onclick: () => showDenial(entry) }, "Why?"),
			]);
			this.denialsElement.replaceChildren(table(["time", "user", "operation", "path", ""], rows, "Nothing was denied since the server started."));
		} catch { /* asked again */ }
	}

	link(keys = []) {
		return h("a", { href: link("data", keys) }, visible(join(keys), 120));
	}

	async backup(button) {
		button.disabled = true;
		try {
			const response = await session.request("/.inspect/backup", {}, { asSelf: true });
			if (!response.ok) throw new Error(response.statusText);
			const name = /filename="([^"]+)"/.exec(response.headers.get("content-disposition") ?? "")?.[1] ?? "pando.backup";
			const blob = await response.blob();
			save(name, blob);
			toast(`Backup of ${formatBytes(blob.size)}. Check it with pando check backup.`);
		} catch (error) {
			toast(`No backup: ${error.message}`, "error");
		}
		button.disabled = false;
	}
}
