// JSON that keeps whole numbers beyond 2^53, and a member named `__proto__`.

const LONG_NUMBER = /\d{16}/

export function parse(text) {
	if (!LONG_NUMBER.test(text)) return JSON.parse(text)
	return JSON.parse(text, (_, value, context) =>
		typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? "")
			? BigInt(context.source) : value)
}

// A table of `public/data`: JSON, but a path that ends in .json would be of the database.
export const readTable = async name => (await fetch(`/data/${name}.txt`)).json()

export const stringify = (value, indent) =>
	JSON.stringify(value, (_, inner) => (typeof inner === "bigint" ? JSON.rawJSON(String(inner)) : inner), indent) ?? "null"

export const own = (object, name) => (Object.hasOwn(object, name) ? object[name] : undefined)

export const isObject = value => value !== null && typeof value === "object"

// "object", "string", "number", "boolean" or "null" of a value as `parse` gives it, without its priority.
export function kindOf(value) {
	const plain = unwrap(value).value ?? null
	return plain === null ? "null" : typeof plain === "bigint" ? "number" : typeof plain
}

// A value of the export form: what it is without its priority, and the priority.
export function unwrap(value) {
	if (!isObject(value)) return {value}
	return {value: Object.hasOwn(value, ".value") ? value[".value"] : value, priority: own(value, ".priority")}
}

export function wrap(value, priority) {
	if (priority == null || value === null) return value
	return {...(isObject(value) ? value : {".value": value}), ".priority": priority}
}
