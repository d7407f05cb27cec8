// Lines that read a path, or a query, in a shell and in the SDKs. A query has {orderBy, startAt, startAfter, endAt,
// endBefore, equalTo, limitToFirst, limitToLast}; orderBy is "$key", "$value", "$priority" or a child path.

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

const shell = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const quote = (text) => JSON.stringify(text);
const literal = (value) => stringify(value);

/** The query object of the realtime protocol (§7.1). */
export function wireQuery(query) {
  const wire = {};
  if (query.orderBy !== undefined && query.orderBy !== "$priority") wire.i = query.orderBy === "$key" ? ".key" : query.orderBy === "$value" ? ".value" : query.orderBy;
  if (query.equalTo !== undefined) Object.assign(wire, { sp: query.equalTo, sin: true, ep: query.equalTo, ein: true });
  if (query.startAt !== undefined) Object.assign(wire, { sp: query.startAt, sin: true });
  if (query.startAfter !== undefined) Object.assign(wire, { sp: query.startAfter, sin: false }, wire.i === ".key" ? {} : { sn: "[MAX_NAME]" });
  if (query.endAt !== undefined) Object.assign(wire, { ep: query.endAt, ein: true });
  if (query.endBefore !== undefined) Object.assign(wire, { ep: query.endBefore, ein: false }, wire.i === ".key" ? {} : { en: "[MIN_NAME]" });
  if (query.limitToFirst) Object.assign(wire, { l: query.limitToFirst, vf: "l" });
  if (query.limitToLast) Object.assign(wire, { l: query.limitToLast, vf: "r" });
  return wire;
}

/** The same in one language after the other: [name, text]. */
export function snippets(keys, query = {}) {
  const path = keys.join("/");
  const parts = [...BOUNDS, ...LIMITS].filter((name) => query[name] !== undefined);
  const order = query.orderBy;
  const orders = (byKey, byValue, byPriority, byChild) =>
    order === undefined ? [] : [order === "$key" ? byKey : order === "$value" ? byValue : order === "$priority" ? byPriority : byChild(quote(order))];
  const curl = ["curl", ...(session.isAdmin ? ["-H", `"Authorization: Bearer $PANDO_TOKEN"`] : []), shell(restURL(keys, query))].join(" ");
  const javascript = [...orders("orderByKey()", "orderByValue()", "orderByPriority()", (child) => `orderByChild(${child})`),
    ...parts.map((name) => `${name}(${literal(query[name])})`)];
  const reference = `ref(database, ${quote(path || "/")})`;
  const swift = [...orders(".queryOrderedByKey()", ".queryOrderedByValue()", ".queryOrderedByPriority()", (child) => `.queryOrdered(byChild: ${child})`),
    ...parts.map((name) => ({
      startAt: (value) => `.queryStarting(atValue: ${value})`, startAfter: (value) => `.queryStarting(afterValue: ${value})`,
      endAt: (value) => `.queryEnding(atValue: ${value})`, endBefore: (value) => `.queryEnding(beforeValue: ${value})`,
      equalTo: (value) => `.queryEqual(toValue: ${value})`, limitToFirst: (value) => `.queryLimited(toFirst: ${value})`,
      limitToLast: (value) => `.queryLimited(toLast: ${value})`,
    })[name](query[name] === null ? "nil" : literal(query[name])))];
  const kotlin = [...orders(".orderByKey()", ".orderByValue()", ".orderByPriority()", (child) => `.orderByChild(${child})`),
    ...parts.map((name) => `.${name}(${typeof query[name] === "number" && !LIMITS.includes(name) && Number.isInteger(query[name]) ? `${query[name]}.0` : literal(query[name]).replaceAll("$", "\\$")})`)];
  const python = [...orders(".order_by_key()", ".order_by_value()", ".order_by_child('$priority')", (child) => `.order_by_child(${child})`),
    ...parts.map((name) => `.${{ startAt: "start_at", startAfter: "start_after", endAt: "end_at", endBefore: "end_before", equalTo: "equal_to", limitToFirst: "limit_to_first", limitToLast: "limit_to_last" }[name]}(${
      { true: "True", false: "False", null: "None" }[String(query[name])] ?? literal(query[name])})`)];
  return [
    ["curl", curl],
    ["JavaScript", javascript.length ? `onValue(query(${[reference, ...javascript].join(", ")}), (snapshot) => console.log(snapshot.val()));` : `onValue(${reference}, (snapshot) => console.log(snapshot.val()));`],
    ["Swift", `Database.database().reference(withPath: ${quote(path)})${swift.join("")}.observe(.value) { print($0.value ?? "nil") }`],
    ["Kotlin", `Firebase.database.getReference(${quote(path).replaceAll("$", "\\$")})${kotlin.join("")}.get().addOnSuccessListener { println(it.value) }`],
    ["Python", `db.reference(${quote("/" + path)})${python.join("")}.get()`],
  ];
}
