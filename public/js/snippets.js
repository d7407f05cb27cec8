// Lines that read a path or a query, in a shell and in the SDKs; a query has the parameters of REST.

import { session } from "./session.js";
import { encodePath } from "./keys.js";
import { stringify } from "./json.js";

const BOUNDS = ["startAt", "startAfter", "endAt", "endBefore", "equalTo"];
const LIMITS = ["limitToFirst", "limitToLast"];

/** The address of a path, or of a query, in the REST interface. */
export function restURL(keys, query = {}) {
	const parameters = new URLSearchParams();
	for (const name of ["orderBy", ...BOUNDS]) if (query[name] !== undefined) parameters.set(name, stringify(query[name]));
	for (const name of LIMITS) if (query[name] !== undefined) parameters.set(name, query[name]);
	parameters.set("ns", session.namespace);
	return `${location.origin}/${encodePath(keys)}.json?${parameters}`;
}

/** The line of the rules that declares the index of an order. */
export const indexLine = (order) => `".indexOn": [${JSON.stringify(order === "$value" ? ".value" : order)}]`;

const shell = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const quote = (text) => JSON.stringify(text);

/** The query object of the realtime protocol (§7.1). */
export function wireQuery(query) {
	const wire = {};
	if (query.orderBy !== undefined && query.orderBy !== "$priority") wire.i = query.orderBy === "$key" ? ".key" : query.orderBy === "$value" ? ".value" : query.orderBy;
	if (query.equalTo !== undefined) Object.assign(wire, { sp: query.equalTo, sin: true, ep: query.equalTo, ein: true });
	for (const [name, side, isInclusive, furthest] of [["startAt", "s", true], ["startAfter", "s", false, "[MAX_NAME]"], ["endAt", "e", true], ["endBefore", "e", false, "[MIN_NAME]"]]) {
		if (query[name] === undefined) continue;
		Object.assign(wire, { [`${side}p`]: query[name], [`${side}in`]: isInclusive });
		if (furthest && wire.i !== ".key") wire[`${side}n`] = furthest;
	}
	if (query.limitToFirst) Object.assign(wire, { l: query.limitToFirst, vf: "l" });
	if (query.limitToLast) Object.assign(wire, { l: query.limitToLast, vf: "r" });
	return wire;
}

/** The same in a shell and in the SDKs: [name, text]. A query is written for curl and JavaScript. */
export function snippets(keys, query = {}) {
	const path = quote(keys.join("/"));
	const { orderBy } = query;
	const order = { $key: "orderByKey()", $value: "orderByValue()", $priority: "orderByPriority()" }[orderBy] ?? `orderByChild(${quote(orderBy ?? "")})`;
	const parts = [...BOUNDS, ...LIMITS].filter((name) => query[name] !== undefined).map((name) => `${name}(${stringify(query[name])})`);
	const reference = `ref(database, ${path === '""' ? '"/"' : path})`;
	const lines = [
		["curl", `curl ${session.isAdmin ? '-H "Authorization: Bearer $PANDO_TOKEN" ' : ""}${shell(restURL(keys, query))}`],
		["JavaScript", `onValue(${orderBy ? `query(${[reference, order, ...parts].join(", ")})` : reference}, (snapshot) => console.log(snapshot.val()));`],
	];
	return orderBy ? lines : [...lines,
		["Swift", `Database.database().reference(withPath: ${path}).observe(.value) { print($0.value ?? "nil") }`],
		["Kotlin", `Firebase.database.getReference(${path.replaceAll("$", "\\$")}).get().addOnSuccessListener { println(it.value) }`],
		["Python", `db.reference("/" + ${path}).get()`]];
}
