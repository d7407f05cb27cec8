// Paths, the order of keys, push ids, and the hash that compare-and-set asks for (protocol/realtime §7.3, §9).

/** The keys of a path: "/a/b" gives ["a", "b"]. */
export const split = (path) => path.split("/").filter((key) => key !== "");
export const join = (keys) => "/" + keys.join("/");

/** Keys in a URL: each percent-encoded, "" for the root. */
export const encodePath = (keys) => keys.map(encodeURIComponent).join("/");

const FORBIDDEN = /[.$#[\]/\u0000-\u001f\u007f]/;
const KEY_BYTE_LIMIT = 768;

/** What is wrong with a key, in words; "" for a key that may be used. */
export function problemOfKey(key) {
	if (key === "") return "A key has at least one character.";
	const bad = FORBIDDEN.exec(key);
	if (bad) return `A key may not have ${bad[0] < " " || bad[0] === "\x7f" ? "control characters" : `“${bad[0]}”`}.`;
	if (!key.isWellFormed()) return "The key is no valid text.";
	return new TextEncoder().encode(key).length > KEY_BYTE_LIMIT ? `A key has at most ${KEY_BYTE_LIMIT} bytes.` : "";
}

function integer(key) {
	if (!/^-?0*\d{1,10}$/.test(key)) return null;
	const value = Number(key);
	return value >= -2147483648 && value <= 2147483647 ? value : null;
}

/** The order of children: whole numbers of 32 bits by value, then all other keys by UTF-16 units. */
export function compareKeys(a, b) {
	if (a === b) return 0;
	const [x, y] = [integer(a), integer(b)];
	if (x !== null) return y === null ? -1 : x - y || a.length - b.length;
	if (y !== null) return 1;
	return a < b ? -1 : 1;
}

const PUSH_CHARACTERS = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";
let lastPush = { time: 0, random: [] };

/** A new key that sorts behind all earlier ones: 8 characters of time, 12 of chance. */
export function pushID(now = Date.now()) {
	const time = Math.max(now, lastPush.time);
	let random = lastPush.random;
	if (time !== lastPush.time) {
		random = [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte & 63);
	} else {
		random = [...random];
		let place = 11;
		while (place > 0 && random[place] === 63) random[place--] = 0;
		random[place]++;
	}
	lastPush = { time, random };
	let id = "";
	for (let rest = time, place = 0; place < 8; place++, rest = Math.floor(rest / 64)) id = PUSH_CHARACTERS[rest % 64] + id;
	return id + random.map((value) => PUSH_CHARACTERS[value]).join("");
}

// The hash

function doubleText(value) {
	const view = new DataView(new ArrayBuffer(8));
	view.setFloat64(0, Number(value));
	return [...new Uint8Array(view.buffer)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

const leafText = (value) =>
	typeof value === "string" ? `string:${value}` : typeof value === "boolean" ? `boolean:${value}` : `number:${doubleText(value)}`;

/** The hash of a value in the export form; "" of null. */
export function hash(value) {
	if (value === null || value === undefined) return "";
	const isObject = typeof value === "object";
	const priority = isObject && Object.hasOwn(value, ".priority") ? value[".priority"] : null;
	const plain = isObject && Object.hasOwn(value, ".value") ? value[".value"] : value;
	const prefix = priority === null ? "" : `priority:${leafText(priority)}:`;
	if (plain === null) return "";
	if (typeof plain !== "object") return sha1(prefix + leafText(plain));
	const order = (child) => {
		const given = child !== null && typeof child === "object" && Object.hasOwn(child, ".priority") ? child[".priority"] : null;
		return given === null ? [0, 0] : typeof given === "number" ? [1, given] : [2, given];
	};
	const children = Object.keys(plain)
		.filter((key) => !key.startsWith("."))
		.map((key) => ({ key, order: order(plain[key]), hash: hash(plain[key]) }))
		.filter((child) => child.hash !== "")
		.sort((a, b) => a.order[0] - b.order[0] || (a.order[1] < b.order[1] ? -1 : a.order[1] > b.order[1] ? 1 : compareKeys(a.key, b.key)));
	if (children.length === 0) return "";
	return sha1(prefix + children.map((child) => `:${child.key}:${child.hash}`).join(""));
}

// SHA-1 of vendor/sha1.js: crypto.subtle is missing by http from another machine.
const sha1 = (text) => btoa(String.fromCharCode(...CryptoJS.SHA1(text.toWellFormed()).words.flatMap((word) => [word >>> 24, (word >>> 16) & 255, (word >>> 8) & 255, word & 255])));
