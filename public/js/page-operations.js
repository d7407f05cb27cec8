// What the server does each second, and what clients of a database ask for.

import { session, link } from "./session.js";
import { feed } from "./feed.js";
import { h, svg, button, choice, panel, table, save, toast, visible, formatCount, formatBytes, formatMoment, formatSpan } from "./dom.js";
import { join, split } from "./keys.js";
import { indexLine } from "./snippets.js";
import { showDenial } from "./edit.js";

const SECOND_MS = 1000;
const SLOWER_MS = 2000; // between two looks at the lists
const SECONDS = 120; // of the plots
const PLOT = 44; // pixels of height
const ROW_LIMIT = 15;
const PATH_LIMIT = 500;
const UNINDEXED_LIMIT = 100;
const LOG_LIMIT = 500; // messages, as the server keeps them

// Metrics (operating.md) of two looks: what is true now, or what came in a second between them.
const metric = (stats, name) => stats.metrics[`pando_${name}`];
const sum = (stats, name) => metric(stats, name).reduce((total, { value }) => total + value, 0);
const gauge = (name) => (now) => sum(now, name);
const rate = (name, scale = 1) => (now, before, seconds) => (scale * (sum(now, name) - sum(before, name))) / seconds;

/** The median and the 99th percentile of a histogram between two looks, in milliseconds; 0 for nothing. */
const quantiles = (name) => [0.5, 0.99].map((share) => (now, before) => {
	const [{ value: { count, buckets } }] = metric(now, name);
	const [{ value: old }] = metric(before, name);
	const wanted = share * (count - old.count);
	let [lower, below] = [0, 0];
	for (const [bound, total] of wanted > 0 ? Object.entries(buckets).sort(([a], [b]) => a - b) : []) {
		const counted = total - old.buckets[bound];
		if (counted >= wanted) return 1000 * (lower + ((bound - lower) * (wanted - below)) / (counted - below));
		[lower, below] = [Number(bound), counted];
	}
	return 1000 * lower;
});

const milliseconds = (value) => (value ? value.toFixed(value < 10 ? 2 : 0) : "–");
const count = (value) => formatCount(Math.round(value));
const METERS = [
	["Connections", count, gauge("connections")], ["Listeners", count, gauge("listens")],
	["Requests/s · denied", count, rate("requests_total"), rate("rule_denials_total")], ["Writes/s", count, rate("commits_total")],
	["Fan-out/s", count, rate("deliveries_total")], ["Sent/s", formatBytes, rate("sent_bytes_total")],
	["Response ms, p50 · p99", milliseconds, ...quantiles("acknowledgement_seconds")],
	["Delivery ms, p50 · p99", milliseconds, ...quantiles("event_delivery_seconds")],
	["Disk sync ms, p50 · p99", milliseconds, ...quantiles("fsync_seconds")],
	["Memory", formatBytes, gauge("resident_memory_bytes")], ["Unread by clients", formatBytes, gauge("outbound_queue_bytes")],
	["Processor", (value) => `${value.toFixed(0)} %`, rate("cpu_seconds_total", 100)],
];

// Metrics that are shown by their names.
const STATE = `databases indexes client_memory_bytes client_memory_limit_bytes journal_size_bytes journal_files journal_uncovered_bytes checkpoint_due_bytes
	checkpoint_timestamp_seconds checkpoint_size_bytes scheduled_backup_timestamp_seconds backup_download_timestamp_seconds disk_free_bytes disk_full`.split(/\s+/);

function stateOf(stats, name) {
	const value = sum(stats, name);
	const [, words, unit] = /^(.*?)(_bytes|_timestamp_seconds)?$/.exec(name);
	return [words.replaceAll("_", " "), unit === "_bytes" ? formatBytes(value) : unit ? (value ? formatMoment(1000 * value) : "none yet") : count(value)];
}

const dataLink = (keys, namespace) => h("a", { href: link("data", keys, namespace) }, visible(join(keys), 120));

const meters = METERS.map(([label, format, ...sources]) => {
	const paths = sources.map(() => svg("path", {}));
	const number = h("b");
	const element = h("div.panel.meter", h("h3", label), number, svg("svg", { viewBox: `0 0 ${SECONDS} ${PLOT}`, preserveAspectRatio: "none", "aria-hidden": true }, ...paths));
	return { format, sources, paths, number, element, values: sources.map(() => []) };
});
const state = h("span.hint", { role: "status" });
const facts = h("dl");
const log = h("ol.writes.log", { tabIndex: 0, label: "Log" });
const order = choice("Sort by", [["queue", "unread output"], "memory", "sent", "received", ["idle", "silence"], "age"], { onchange: () => lookAtLists() });
const [paths, missing] = [new Map(), new Map()]; // of the feed
let namespace, visit, before, lastMessage; // visit: ends when the page is left

// [title, names of columns, rows, words where there is none]
const OF_SERVER = [
	[["Connections with most ", order], ["client", "by", "user", "listens to", "unread", "memory", "sent", "silent", "connected"], async () =>
		(await session.inspect("connections", { sort: order.value, limit: ROW_LIMIT })).connections.map((one) => [
			one.peer ?? "", one.transport.replace("_", " "), one.administrator ? "administrator" : visible(one.uid ?? "", 40),
			one.listens?.length ? [dataLink(split(one.listens[0]), one.database), one.listen_count > 1 && ` and ${formatCount(one.listen_count - 1)} more`] : "",
			...[one.queue_bytes, one.memory_bytes, one.sent_bytes].map(formatBytes), ...[one.idle_seconds, one.age_seconds].map(formatSpan)]), "None."],
	["Slow operations of the last hour", ["ms", "at", "operation", "database", "path", "count"], async () =>
		(await session.inspect("operations")).operations.slice(0, ROW_LIMIT).map(({ seconds, time, protocol, kind, database, path, count }) =>
			[milliseconds(1000 * seconds), formatMoment(time), `${protocol} ${kind}`, database, path.includes("*") ? visible(path, 120) : dataLink(split(path), database), formatCount(count)]), "None took a millisecond or more."],
];
const OF_DATABASE = [
	["Costly paths", ["path", "count", "ms in all", "bytes"], () => [...paths.values()].sort((a, b) => b.millis - a.millis).slice(0, ROW_LIMIT).map(({ keys, count, millis, bytes }) => [dataLink(keys), formatCount(count), millis.toFixed(2), formatBytes(bytes)]), "No operation since this page is open."],
	["Queries without an index", ["path", "order", "add to the rules"], () => [...missing.values()].map(({ keys, order }) => [dataLink(keys), visible(order, 60), indexLine(order)]), "None since this page is open."],
	["Latest denials", ["time", "user", "operation", "path", ""], async () => (await session.inspect("denials")).denials.slice(0, ROW_LIMIT).map((entry) => [
		formatMoment(entry.time), entry.uid === null ? "not signed in" : visible(entry.uid, 60), entry.denial.operation, visible(entry.denial.path, 160),
		button("Why?", () => showDenial(entry), ".small")]), "None since the server started."],
];
const lists = [...OF_SERVER, ...OF_DATABASE].map(([title, heads, rows, empty]) => {
	const content = h("div");
	return { element: panel(title, content), look: async () => {
		const found = table(heads, await rows(), empty);
		if (found.textContent !== content.textContent) content.replaceChildren(found);
	} };
});

/** Runs again and again while the page is open and seen. */
async function every(milliseconds, run) {
	const { signal } = visit;
	while (!signal.aborted) {
		if (document.visibilityState === "visible") await run().catch((error) => (state.textContent = error.message));
		await new Promise((resolve) => setTimeout(resolve, milliseconds));
	}
}

async function look() {
	const now = await session.inspect("stats");
	const seen = performance.now();
	if (before) drawMeters(now, before.stats, (seen - before.seen) / 1000);
	if (before?.stats.start_time !== now.start_time) {
		lastMessage = 0; // another server, or another visit
		log.replaceChildren();
	}
	before = { stats: now, seen };
	const { version, durability, data, time, start_time: start } = now;
	const server = Object.entries({ version, "up for": formatSpan(time - start), durability, data: data ?? "in memory only" });
	facts.replaceChildren(...[...server, ...STATE.map((name) => stateOf(now, name))].flatMap(([name, words]) => [h("dt", name), h("dd", words)]));
	state.textContent = "live";
	const { messages } = await session.inspect("log", { after: lastMessage });
	if (messages.length) drawLog(messages);
}

function drawMeters(now, old, seconds) {
	for (const { format, sources, paths, number, values } of meters) {
		values.forEach((list, place) => {
			list.push(sources[place](now, old, seconds));
			if (list.length > SECONDS) list.shift();
		});
		number.textContent = values.map((list) => format(list.at(-1))).join(" · ");
		const most = Math.max(...values.flat(), Number.MIN_VALUE);
		values.forEach((list, place) =>
			paths[place].setAttribute("d", `M${list.map((value, second) => `${SECONDS - list.length + second} ${PLOT - 1 - (value / most) * (PLOT - 3)}`).join("L")}`));
	}
}

function drawLog(messages) {
	const isAtEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
	lastMessage = messages.at(-1).number;
	log.append(...messages.map(({ time, level, text }) => h("li", { class: level }, h("time", formatMoment(time)), h("span.level", level), h("span.message", visible(text, 2000)))));
	while (log.childElementCount > LOG_LIMIT) log.firstChild.remove();
	if (isAtEnd) log.scrollTop = log.scrollHeight;
}

const lookAtLists = () => Promise.all(lists.map((list) => list.look()));

/** Adds an operation to its path, and to the queries without an index. */
function take({ path, name, millis = 0, bytes = 0, unIndexed, querySet }) {
	if (!path || name === "listener-broadcast") return;
	const text = join(path);
	const entry = paths.get(text) ?? { keys: path, count: 0, millis: 0, bytes: 0 };
	entry.count++;
	entry.millis += millis;
	entry.bytes += bytes;
	paths.delete(text);
	paths.set(text, entry); // the latest is the last
	if (paths.size > PATH_LIMIT) paths.delete(paths.keys().next().value);
	if (!unIndexed || missing.size >= UNINDEXED_LIMIT) return;
	const order = querySet?.[0]?.index?.path?.join("/") ?? querySet?.[0]?.orderBy ?? "";
	missing.set(`${text} ${order}`, { keys: path, order });
}

async function backup({ currentTarget }) {
	currentTarget.disabled = true;
	try {
		const response = await session.response("/.inspect/backup", {}, { asSelf: true });
		const name = /filename="([^"]+)"/.exec(response.headers.get("content-disposition"))?.[1] ?? "pando.backup";
		const blob = await response.blob();
		save(name, blob);
		toast(`Backup of ${formatBytes(blob.size)}. Check it with pando check backup.`);
	} catch (error) {
		toast(`No backup: ${error.message}`, "error");
	}
	currentTarget.disabled = false;
}

feed.addEventListener("records", ({ detail }) => element.isConnected && detail.forEach(take));
const title = h("h2");
export const element = h("div.page",
	h("div.together", h("h2", "Server"), state, h("span.grow"), button("Backup now", backup)),
	h("div.grid", meters.map(({ element }) => element)),
	h("div.columns", panel("State", facts), panel("Log", log)), lists.slice(0, OF_SERVER.length).map(({ element }) => element),
	title, h("div.columns", lists.slice(OF_SERVER.length).map(({ element }) => element)));

export function show() {
	visit?.abort();
	visit = new AbortController();
	before = undefined;
	if (namespace !== session.namespace) [paths, missing].forEach((map) => map.clear());
	namespace = session.namespace;
	title.textContent = `Database ${namespace}`;
	every(SECOND_MS, look);
	every(SLOWER_MS, lookAtLists);
}

export const close = () => visit.abort();
