import { session, link, restPath } from "./session.js";
import { h, iconButton, copy, visible, formatCount } from "./dom.js";
import { split, join, compareKeys } from "./keys.js";
import { stringify, parse, kindOf, unwrap } from "./json.js";
import { snippets, wireQuery, restURL } from "./snippets.js";
import { valueField, explain } from "./edit.js";

const SHOWN_ROWS = 500;
const COLUMN_LIMIT = 8;
const BOUNDS = { none: "everything", equalTo: "equal to", startAt: "from", startAfter: "after", endAt: "up to", endBefore: "before" };

function compareValues(a, b) {
	const rank = (value) => value === null || value === undefined ? 0 : value === false ? 1 : value === true ? 2 : typeof value === "number" || typeof value === "bigint" ? 3 : typeof value === "string" ? 4 : 5;
	return rank(a) - rank(b) || (rank(a) === 5 ? 0 : a < b ? -1 : a > b ? 1 : 0);
}

export class QueryPage {
	constructor(place) {
		this.path = h("input.path-input", { label: "Path" });
		this.order = h("select", { label: "Order by" }, [["$key", "key"], ["child", "child…"], ["$value", "value"], ["$priority", "priority"]].map(([value, label]) => h("option", { value }, label)));
		this.child = h("input.path-input", { placeholder: "child, or path/below", label: "Child to order by" });
		this.bounds = [this.makeBound("First bound", ["none", "equalTo", "startAt", "startAfter", "endAt", "endBefore"]), this.makeBound("Second bound", ["none", "endAt", "endBefore"])];
		this.side = h("select", { label: "Limit to" }, h("option", { value: "limitToFirst" }, "first"), h("option", { value: "limitToLast" }, "last"));
		this.limit = h("input", { type: "number", min: 1, max: 2147483647, value: 50, label: "Limit", class: "limit" });
		this.problem = h("p.problem", { role: "alert" });
		this.result = h("div.scroll", { tabIndex: 0, role: "region", label: "Result" });
		this.cost = h("div", {});
		this.summary = h("span.hint", { role: "status" });
		this.code = h("div", {});
		const form = h("form.panel", { onsubmit: (event) => { event.preventDefault(); this.run(); } }, h("h2", {}, "Query"),
			h("div.query-form", {}, h("span", {}, "Children of"), this.path, h("span", {}, "Order by"), h("span.together", {}, this.order, this.child),
				h("span", {}, "Where"), h("span.together", {}, this.bounds[0].elements), h("span", {}, "and"), h("span.together", {}, this.bounds[1].elements),
				h("span", {}, "Limit to"), h("span.together", {}, this.side, this.limit, h("button", { type: "submit", class: "primary" }, "Run"), this.summary)),
			this.problem);
		this.order.addEventListener("change", () => this.adapt());
		this.element = h("div.page", {}, form, this.cost, h("section.panel", {}, h("h2", {}, "Result"), this.result), h("section.panel", {}, h("h2", {}, "The same elsewhere"), this.code));
		this.update(place);
	}

	update({ keys, parameters }) {
		this.path.value = join(keys);
		const query = parameters.get("q");
		this.order.value = "$key";
		this.child.value = "";
		if (query) this.fill(query);
		this.adapt();
		this.run();
		return true;
	}

	close() {
		this.stop?.();
	}

	makeBound(label, names) {
		const kind = h("select", { label: label }, names.map((name) => h("option", { value: name }, name === "none" ? (names.length > 3 ? "everything" : "nothing else") : BOUNDS[name])));
		const field = valueField("");
		field.type.replaceChildren(...["string", "number", "boolean", "json"].map((name) => h("option", { value: name }, name === "json" ? "null" : name)));
		field.type.addEventListener("change", () => { if (field.type.value === "json") field.text.value = "null"; });
		kind.addEventListener("change", () => this.adapt());
		return { kind, field, elements: [kind, ...field.elements] };
	}

	adapt() {
		this.child.hidden = this.order.value !== "child";
		const isEqual = this.bounds[0].kind.value === "equalTo";
		this.bounds[1].kind.disabled = isEqual || this.bounds[0].kind.value === "none" || this.bounds[0].kind.value.startsWith("end");
		if (this.bounds[1].kind.disabled) this.bounds[1].kind.value = "none";
		for (const { kind, field } of this.bounds) for (const element of field.elements) element.hidden = kind.value === "none";
		if (this.order.value === "$key") for (const { field } of this.bounds) { field.type.value = "string"; field.type.hidden = true; }
	}

	fill(text) {
		try {
			const query = parse(text);
			const order = query.orderBy ?? "$key";
			this.order.value = order.startsWith("$") ? order : "child";
			if (!order.startsWith("$")) this.child.value = order;
			const names = Object.keys(BOUNDS).filter((name) => Object.hasOwn(query, name));
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
		this.code.replaceChildren(h("table", {}, h("tbody", {}, samples.map(([name, text]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, text), h("td", {}, iconButton("copy", `Copy ${name}`, () => copy(text, `${name} copied`))))))));
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
		this.summary.textContent = `${formatCount(rows.length)} ${rows.length === 1 ? "child" : "children"}, first result in ${this.took.toFixed(this.took < 10 ? 1 : 0)} ms, live · ${this.indexProblem ? "no index is declared" : order === "$key" ? "in key order" : "index"}`;
		if (this.indexProblem) {
			const line = `".indexOn": [${JSON.stringify(order === "$value" ? ".value" : order)}]`;
			this.cost.replaceChildren(h("div.banner", { role: "status" }, `The rules declare no index for this order, so each run may look at every child, and REST refuses it. Add to the rules at ${visible(join(keys), 120)}:`,
				h("pre", {}, line), h("p", {}, h("button", { class: "small", onclick: () => copy(line, "Index line copied") }, "Copy the line"), " ",
					h("a", { href: link("rules") }, "Open the rules"))));
		} else this.cost.replaceChildren();
		if (rows.length === 0) return this.result.replaceChildren(h("p.hint", {}, "No child is selected."));
		const columns = [];
		for (const { key } of rows.slice(0, 50)) {
			if (kindOf(data[key]) !== "object") continue;
			for (const name of Object.keys(unwrap(data[key]).value)) if (!columns.includes(name) && columns.length < COLUMN_LIMIT && !name.startsWith(".")) columns.push(name);
		}
		const cell = (node) => {
			const kind = kindOf(node ?? null);
			const text = node === undefined ? "" : visible(stringify(unwrap(node).value), 120);
			return h("td", { class: kind }, h("span.value", {}, text));
		};
		const body = rows.slice(0, SHOWN_ROWS).map(({ key }) => {
			const isObject = kindOf(data[key]) === "object";
			const plain = unwrap(data[key]).value;
			return h("tr", {}, h("td", {}, h("a", { href: link("data", [...keys, key]) }, visible(key, 80))),
				columns.length && isObject ? columns.map((name) => cell(Object.hasOwn(plain, name) ? plain[name] : undefined)) : [cell(data[key]), ...columns.slice(1).map(() => h("td"))]);
		});
		this.result.replaceChildren(h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "key"), (columns.length ? columns : ["value"]).map((name) => h("th", { scope: "col" }, visible(name, 60))))), h("tbody", {}, body)),
			rows.length > SHOWN_ROWS ? h("p.hint", {}, `The first ${SHOWN_ROWS} of ${formatCount(rows.length)} are shown.`) : "");
	}
}
