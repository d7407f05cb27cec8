// JSON that keeps whole numbers beyond 2^53, and a member named `__proto__`.

const LONG_NUMBER = /\d{16}/;

/** As JSON.parse, but whole numbers that a double cannot hold become BigInt. */
export function parse(text) {
	if (!LONG_NUMBER.test(text)) return JSON.parse(text);
	return JSON.parse(text, (_, value, context) =>
		typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? "")
			? BigInt(context.source) : value);
}

/** As JSON.stringify, for what `parse` gives. `indent` is a number of spaces. */
export function stringify(value, indent = 0) {
	const lines = [];
	write(value, indent ? "\n" : "", " ".repeat(indent), lines);
	return lines.join("");
}

function write(value, line, step, output) {
	if (typeof value === "bigint") return output.push(String(value));
	if (value === null || typeof value !== "object") return output.push(JSON.stringify(value) ?? "null");
	const isArray = Array.isArray(value);
	const names = isArray ? value.map((_, index) => index) : Object.keys(value);
	if (names.length === 0) return output.push(isArray ? "[]" : "{}");
	const deeper = line + step;
	output.push(isArray ? "[" : "{");
	names.forEach((name, index) => {
		if (index) output.push(",");
		output.push(deeper);
		if (!isArray) output.push(JSON.stringify(name), line ? ": " : ":");
		write(value[name], deeper, step, output);
	});
	output.push(line, isArray ? "]" : "}");
}

/** The member of an object; undefined where it has none of its own. */
export const own = (object, name) => (Object.hasOwn(object, name) ? object[name] : undefined);

/** Sets a member, whatever its name is. */
export function assign(object, name, value) {
	Object.defineProperty(object, name, { value, writable: true, enumerable: true, configurable: true });
}

/** "object", "string", "number", "boolean" or "null" of a value as `parse` gives it, without its priority. */
export function kindOf(value) {
	const plain = unwrap(value).value;
	if (plain === null || plain === undefined) return "null";
	return typeof plain === "bigint" ? "number" : typeof plain;
}

/** A value of the export form: what it is without its priority, and the priority. */
export function unwrap(value) {
	if (value === null || typeof value !== "object") return { value, priority: undefined };
	const priority = own(value, ".priority");
	return Object.hasOwn(value, ".value") ? { value: value[".value"], priority } : { value, priority };
}

/** A value with a priority, in the export form. */
export function wrap(value, priority) {
	if (priority === undefined || priority === null || value === null) return value;
	if (typeof value !== "object") return { ".value": value, ".priority": priority };
	return { ...value, ".priority": priority };
}

const TOKEN = /\s*(?:"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null|[{}[\],:])\s*/y;

/** The line and column at which JSON.parse gave up: from its message, else the first text that is no token of JSON. */
export function positionOf(error, text) {
	let offset = Number(/position (\d+)/.exec(error.message)?.[1] ?? NaN);
	if (Number.isNaN(offset)) {
		TOKEN.lastIndex = offset = 0;
		while (offset < text.length && TOKEN.test(text)) offset = TOKEN.lastIndex;
	}
	const before = text.slice(0, offset).split("\n");
	return { line: before.length, column: before.at(-1).length + 1 };
}

/** How many nodes a value has: leaves and objects, not itself where it is null. */
export function countNodes(value) {
	const plain = unwrap(value).value;
	if (plain === null || plain === undefined) return 0;
	if (typeof plain !== "object") return 1;
	let count = 1;
	for (const name of Object.keys(plain)) if (!name.startsWith(".")) count += countNodes(plain[name]);
	return count;
}
