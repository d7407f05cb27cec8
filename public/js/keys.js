// Paths, the order of keys, push ids, and the hash that compare-and-set asks for (protocol/realtime §7.3, §9).

import {kindOf, unwrap} from "./json.js"

export const split = path => path.split("/").filter(key => key !== "")
export const join = keys => "/" + keys.join("/")

// Whether one path is the other, above it, or below it.
export const isOnOneWay = (keys, others) => keys.every((key, place) => place >= others.length || others[place] === key)

export const encodePath = keys => keys.map(encodeURIComponent).join("/")

const FORBIDDEN = /[.$#[\]/\u0000-\u001f\u007f]/
const KEY_BYTE_LIMIT = 768

// What is wrong with a key, in words; "" for a key that may be used.
export function problemOfKey(key) {
	if (key === "") return "A key has at least one character."
	if (FORBIDDEN.test(key)) return "A key may not have control characters, nor any of . $ # [ ] /"
	if (!key.isWellFormed()) return "The key is no valid text."
	return new TextEncoder().encode(key).length > KEY_BYTE_LIMIT ? `A key has at most ${KEY_BYTE_LIMIT} bytes.` : ""
}

const integer = key => (/^-?0*\d{1,10}$/.test(key) && (key | 0) === Number(key) ? Number(key) : NaN)

// The order of children: whole numbers of 32 bits by value, then all other keys by UTF-16 units.
export function compareKeys(a, b) {
	const [x, y] = [integer(a), integer(b)]
	if (isNaN(x) !== isNaN(y)) return isNaN(x) - isNaN(y)
	return isNaN(x) ? (a > b) - (a < b) : x - y || a.length - b.length
}

const RANKS = ["null", false, true, "number", "string"]

export function compareValues(a, b) {
	const [x, y] = [a, b].map(value => RANKS.indexOf(typeof value === "boolean" ? value : kindOf(value)) >>> 0)
	return x - y || (x > RANKS.length || a === b ? 0 : a < b ? -1 : 1)
}

const PUSH_CHARACTERS = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
let lastPush = 0n

export function pushID(now = Date.now()) {
	const number = crypto.getRandomValues(new Uint8Array(9)).reduce((number, byte) => (number << 8n) | BigInt(byte), BigInt(now))
	// Within a millisecond the next number.
	lastPush = number >> 72n > lastPush >> 72n ? number : lastPush + 1n
	let id = ""
	for (let bit = 0n; bit < 120n; bit += 6n) id = PUSH_CHARACTERS[(lastPush >> bit) & 63n] + id
	return id
}

const doubleText = value => new Uint8Array(Float64Array.of(Number(value)).buffer).reverse().toHex() // big-endian

const leafText = value =>
	typeof value === "string" ? `string:${value}` : typeof value === "boolean" ? `boolean:${value}` : `number:${doubleText(value)}`

// The hash of a value in the export form; "" of null.
export function hash(data) {
	const {value, priority = null} = unwrap(data ?? null)
	if (value === null) return ""
	const prefix = priority === null ? "" : `priority:${leafText(priority)}:`
	if (typeof value !== "object") return sha1(prefix + leafText(value))
	const children = Object.keys(value).filter(key => !key.startsWith("."))
		.map(key => ({key, priority: unwrap(value[key]).priority ?? null, hash: hash(value[key])}))
		.filter(child => child.hash !== "")
		.sort((a, b) => compareValues(a.priority, b.priority) || compareKeys(a.key, b.key))
	return children.length === 0 ? "" : sha1(prefix + children.map(child => `:${child.key}:${child.hash}`).join(""))
}

// crypto.subtle is missing by http from another machine.
const sha1 = text => Uint8Array.fromHex(CryptoJS.SHA1(text.toWellFormed()).toString()).toBase64()
