import { session, link, restPath } from "./session.js";
import { h, choice, table, iconButton, copy, visible, formatCount } from "./dom.js";
import { split, join, compareKeys } from "./keys.js";
import { stringify, parse, kindOf, unwrap, own } from "./json.js";
import { snippets, wireQuery, restURL, indexLine } from "./snippets.js";
import { valueField, explain } from "./edit.js";

const SHOWN_ROWS = 500;
const COLUMN_LIMIT = 8;
const BOUNDS = [["none", "everything"], ["equalTo", "equal to"], ["startAt", "from"], ["startAfter", "after"], ["endAt", "up to"], ["endBefore", "before"]];
const RANKS = ["null", false, true, "number", "string"];

/** The order of values: null, false, true, numbers, strings, objects. */
function compareValues(a, b) {
	const [x, y] = [a, b].map((value) => RANKS.indexOf(typeof value === "boolean" ? value : kindOf(value)) >>> 0);
	return x - y || (x > RANKS.length || a === b ? 0 : a < b ? -1 : 1);
}

const makeBound = (label, options) => {
	const field = valueField("", ["string", "number", "boolean", ["json", "null"]]);
	return { kind: choice(label, options), field };
};

export class Page {
	constructor(place) {
		this.path = h("input.path-input", { label: "Path" });
		this.order = choice("Order by", [["$key", "key"], ["child", "child…"], ["$value", "value"], ["$priority", "priority"]]);
		this.child = h("input.path-input", { placeholder: "child, or path/below", label: "Child to order by" });
		this.bounds = [makeBound("First bound", BOUNDS), makeBound("Second bound", [["none", "nothing else"], ...BOUNDS.slice(4)])];
		this.side = choice("Limit to", [["limitToFirst", "first"], ["limitToLast", "last"]]);
		this.limit = h("input", { type: "number", min: 1, max: 2147483647, value: 50, label: "Limit" });
		this.problem = h("p.problem", { role: "alert" });
		[this.result, this.cost, this.code] = [h("div"), h("div"), h("div")];
		this.summary = h("span.hint", { role: "status" });
		const rows = { "Children of": this.path, "Order by": [this.order, this.child], Where: [this.bounds[0].kind, this.bounds[0].field.elements], and: [this.bounds[1].kind, this.bounds[1].field.elements],
			"Limit to": [this.side, this.limit, h("button.primary", { type: "submit" }, "Run"), this.summary] };
		const form = h("form.panel", { onsubmit: (event) => { event.preventDefault(); this.run(); }, onchange: () => this.adapt() }, h("h2", "Query"),
			h("div.query-form", Object.entries(rows).map(([label, content]) => [h("span", label), h("span.together", content)])), this.problem);
		this.element = h("div.page", form, this.cost, h("section.panel", h("h2", "Result"), this.result), h("section.panel", h("h2", "The same elsewhere"), this.code));
		this.update(place);
	}

	update({ keys, parameters }) {
		this.path.value = join(keys);
		this.order.value = "$key";
		this.child.value = "";
		if (parameters.get("q")) this.fill(parameters.get("q"));
		this.adapt();
		this.run();
		return true;
	}

	close() {
		this.stop?.();
	}

	adapt() {
		const [first, second] = this.bounds;
		this.child.hidden = this.order.value !== "child";
		second.kind.disabled = /^(none|equalTo|end.*)$/.test(first.kind.value);
		if (second.kind.disabled) second.kind.value = "none";
		for (const { kind, field } of this.bounds) {
			if (field.type.value === "json") field.text.value = "null";
			for (const element of field.elements) element.hidden = kind.value === "none";
			if (this.order.value === "$key") Object.assign(field.type, { value: "string", hidden: true });
		}
	}

	fill(text) {
		try {
			const query = parse(text);
			const order = query.orderBy ?? "$key";
			this.order.value = order.startsWith("$") ? order : "child";
			if (!order.startsWith("$")) this.child.value = order;
			const names = BOUNDS.map(([name]) => name).filter((name) => Object.hasOwn(query, name));
			this.bounds.forEach(({ kind, field }, place) => {
				const name = names[place];
				kind.value = name ?? "none";
				if (!name) return;
				field.type.value = kindOf(query[name]) === "null" ? "json" : kindOf(query[name]);
				field.text.value = String(query[name]);
			});
			for (const name of ["limitToFirst", "limitToLast"]) if (query[name]) { this.side.value = name; this.limit.value = query[name]; }
		} catch { /* no query */ }
	}

	read() {
		const query = { orderBy: this.order.value === "child" ? split(this.child.value).join("/") : this.order.value };
		if (query.orderBy === "") throw new Error("Say which child the order is by.");
		for (const { kind, field } of this.bounds) {
			if (kind.value === "none") continue;
			query[kind.value] = field.read();
			if (kindOf(query[kind.value]) === "object") throw new Error("A bound is a string, a number, a boolean or null.");
		}
		if (this.limit.value.trim()) {
			const limit = Number(this.limit.value);
			if (!Number.isInteger(limit) || limit < 1) throw new Error("A limit is a whole number from 1 on.");
			query[this.side.value] = limit;
		}
		return query;
	}

	run() {
		this.stop?.();
		this.problem.textContent = "";
		this.cost.replaceChildren();
		let query;
		try {
			query = this.read();
		} catch (error) {
			this.problem.textContent = error.message;
			return;
		}
		const keys = split(this.path.value);
		history.replaceState(null, "", `${link("query", keys)}?q=${encodeURIComponent(stringify(query))}`);
		this.began = performance.now();
		this.isFirst = true;
		this.summary.textContent = "…";
		this.latest = null;
		this.checkIndex(keys, query);
		this.stop = session.database.listen(join(keys), wireQuery(query), (value) => this.received(value, keys, query), (error) => {
			this.summary.textContent = "";
			this.problem.textContent = error.message;
			this.result.replaceChildren();
			if (error.code === "permission_denied") explain(error, "Query");
		});
		const samples = [["REST", restURL(keys, query)], ...snippets(keys, query)];
		this.code.replaceChildren(table(["in", "as", ""], samples.map(([name, text]) => [name, text, iconButton("copy", `Copy ${name}`, () => copy(text, `${name} copied`))])));
	}

	async checkIndex(keys, { orderBy }) {
		this.indexProblem = false;
		if (orderBy === "$key" || orderBy === "$priority") return;
		const number = (this.checks = (this.checks ?? 0) + 1);
		const problem = await session.json(restPath(join(keys)), { orderBy: JSON.stringify(orderBy), limitToFirst: 1 }).then(() => "", (error) => error.message);
		if (number !== this.checks) return;
		this.indexProblem = problem.startsWith("Index not defined");
		if (this.latest) this.draw();
	}

	received(value, keys, query) {
		if (this.isFirst) this.took = performance.now() - this.began;
		this.isFirst = false;
		this.latest = { value, keys, query };
		this.frame ??= requestAnimationFrame(() => {
			this.frame = undefined;
			if (this.latest) this.draw();
		});
	}

	draw() {
		const { value, keys, query } = this.latest;
		const data = value === null || typeof value !== "object" ? {} : value;
		const order = query.orderBy;
		const indexValue = (key) => order === "$key" ? 0 : order === "$priority" ? unwrap(data[key]).priority ?? null
			: (order === "$value" ? [] : order.split("/")).reduce((node, name) => node !== null && typeof node === "object" && Object.hasOwn(node, name) ? node[name] : null, data[key]);
		const rows = Object.keys(data).filter((key) => key !== ".priority" && key !== ".value").map((key) => ({ key, by: unwrap(indexValue(key)).value }))
			.sort((a, b) => (order === "$key" ? 0 : compareValues(a.by, b.by)) || compareKeys(a.key, b.key));
		const index = this.indexProblem ? "no index is declared" : order === "$key" ? "in key order" : "index";
		this.summary.textContent = `${formatCount(rows.length)} ${rows.length === 1 ? "child" : "children"}, first result in ${this.took.toFixed(1)} ms, live · ${index}`;
		const line = indexLine(order);
		this.cost.replaceChildren(this.indexProblem ? h("div.banner", { role: "status" },
			`No index is declared for this order: each run may look at every child, and REST refuses it. Add to the rules at ${visible(join(keys), 120)}:`, h("pre", line),
			h("p", h("button.small", { onclick: () => copy(line, "Index line copied") }, "Copy the line"), " ", h("a", { href: link("rules") }, "Open the rules"))) : "");
		const plain = (key) => unwrap(data[key]).value;
		const isObject = (key) => kindOf(data[key]) === "object";
		const columns = [...new Set(rows.slice(0, 50).flatMap(({ key }) => isObject(key) ? Object.keys(plain(key)) : []))].filter((name) => !name.startsWith(".")).slice(0, COLUMN_LIMIT);
		const cell = (node) => node === undefined ? "" : h("span", { class: kindOf(node) }, h("span.value", visible(stringify(unwrap(node).value), 120)));
		const body = rows.slice(0, SHOWN_ROWS).map(({ key }) => [h("a", { href: link("data", [...keys, key]) }, visible(key, 80)),
			...(columns.length && isObject(key) ? columns.map((name) => cell(own(plain(key), name))) : [cell(data[key])])]);
		this.result.replaceChildren(table(["key", ...(columns.length ? columns.map((name) => visible(name, 60)) : ["value"])], body, "No child is selected."),
			rows.length > SHOWN_ROWS ? h("p.hint", `The first ${SHOWN_ROWS} of ${formatCount(rows.length)} are shown.`) : "");
	}
}
