// Lines that read a path or a query (with the parameters of REST) in a shell and in the SDKs.

import { session } from "./session.js";
import { table, iconButton, copy } from "./dom.js";
import { encodePath } from "./keys.js";
import { stringify } from "./json.js";

const BOUNDS = ["startAt", "startAfter", "endAt", "endBefore", "equalTo"];
const LIMITS = ["limitToFirst", "limitToLast"];
const ORDERS = { $key: "orderByKey", $value: "orderByValue", $priority: "orderByPriority" };

function restURL(keys, query) {
	const parameters = new URLSearchParams();
	for (const name of ["orderBy", ...BOUNDS, ...LIMITS]) if (query[name] !== undefined) parameters.set(name, stringify(query[name]));
	parameters.set("ns", session.namespace);
	return `${location.origin}/${encodePath(keys)}.json?${parameters}`;
}

/** The line of the rules that declares the index of an order. */
export const indexLine = (order) => `".indexOn": [${JSON.stringify(order === "$value" ? ".value" : order)}]`;

/** The query object of the realtime protocol (§7.1). */
export function wireQuery(query) {
	const wire = {};
	if (query.orderBy !== "$priority") wire.i = { $key: ".key", $value: ".value" }[query.orderBy] ?? query.orderBy;
	if (query.equalTo !== undefined) Object.assign(wire, { sp: query.equalTo, sin: true, ep: query.equalTo, ein: true });
	for (const [name, side, isInclusive, furthest] of [["startAt", "s", true], ["startAfter", "s", false, "[MAX_NAME]"], ["endAt", "e", true], ["endBefore", "e", false, "[MIN_NAME]"]]) {
		if (query[name] === undefined) continue;
		Object.assign(wire, { [`${side}p`]: query[name], [`${side}in`]: isInclusive });
		if (furthest && wire.i !== ".key") wire[`${side}n`] = furthest;
	}
	const limit = query.limitToFirst ?? query.limitToLast;
	return limit ? { ...wire, l: limit, vf: query.limitToFirst ? "l" : "r" } : wire;
}

// How a line of an SDK begins, calls a method and ends, and the values that it writes unlike JSON.
const SWIFT_METHODS = {
	orderByKey: "queryOrderedByKey(", orderByValue: "queryOrderedByValue(", orderByPriority: "queryOrderedByPriority(", orderByChild: "queryOrdered(byChild: ",
	startAt: "queryStarting(atValue: ", startAfter: "queryStarting(afterValue: ", endAt: "queryEnding(atValue: ", endBefore: "queryEnding(beforeValue: ",
	equalTo: "queryEqual(toValue: ", limitToFirst: "queryLimited(toFirst: ", limitToLast: "queryLimited(toLast: ",
};
const SDKS = {
	Swift: {
		begin: (path) => `Database.database().reference(withPath: ${path})`, end: '.observe(.value) { print($0.value ?? "nil") }',
		call: (name) => SWIFT_METHODS[name], words: { null: "nil" }, quote: (text) => text.replace(/\\u(\w{4})/g, "\\u{$1}"),
	},
	Kotlin: {
		begin: (path) => `Firebase.database.getReference(${path})`, end: ".get().addOnSuccessListener { println(it.value) }",
		call: (name) => `${name}(`, words: { null: "null as String?" }, quote: (text) => text.replaceAll("$", "\\$"), number: (text) => (/\D/.test(text.slice(1)) ? text : `${text}.0`),
	},
	Python: {
		begin: (path) => `db.reference("/" + ${path})`, end: ".get()", lacks: ["startAfter", "endBefore", "orderByPriority"],
		call: (name) => `${name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}(`, words: { null: "None", true: "True", false: "False" },
	},
};

function literal(value, { words, quote = String, number = String }) {
	const text = stringify(value);
	return typeof value === "string" ? quote(text) : words[text] ?? number(text);
}

export function codeTable(keys, query = {}) {
	const path = keys.join("/");
	const { orderBy } = query;
	const order = ORDERS[orderBy] ? [ORDERS[orderBy]] : ["orderByChild", orderBy];
	const methods = orderBy ? [order, ...[...BOUNDS, ...LIMITS].filter((name) => name in query).map((name) => [name, query[name]])] : [];
	const reference = `ref(database, ${JSON.stringify(path || "/")})`;
	const parts = methods.map(([name, value]) => `, ${name}(${value === undefined ? "" : stringify(value)})`).join("");
	const line = (sdk) => {
		const lacking = methods.find(([name]) => sdk.lacks?.includes(name));
		if (lacking) return `(this SDK has no ${lacking[0]})`;
		const calls = methods.map(([name, value]) => `.${sdk.call(name)}${value === undefined ? "" : LIMITS.includes(name) ? value : literal(value, sdk)})`);
		return sdk.begin(literal(path, sdk)) + calls.join("") + sdk.end;
	};
	const lines = [
		["REST", restURL(keys, query)],
		["curl", `curl ${session.isAdmin ? '-H "Authorization: Bearer $PANDO_TOKEN" ' : ""}'${restURL(keys, query).replaceAll("'", "'\\''")}'`],
		["JavaScript", `onValue(${parts ? `query(${reference}${parts})` : reference}, (snapshot) => console.log(snapshot.val()));`],
		...Object.entries(SDKS).map(([name, sdk]) => [name, line(sdk)]),
	];
	return table(["", "in", "as"], lines.map(([name, text]) => [iconButton("copy", `Copy ${name}`, () => copy(text, `${name} copied`)), name, text]));
}
