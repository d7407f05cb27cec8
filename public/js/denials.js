import {session, link} from "./session.js"
import {h, button, choice, definitions, dialog, failed, panel, showTable, toast, visible, format} from "./dom.js"
import {parse, stringify, readTable} from "./json.js"

const NEAR_MS = 5000 // between a denial and its answer
const LIST_LIMIT = 15
export const causes = readTable("causes")

const userName = uid => (uid === null ? "not signed in" : `uid ${visible(uid)}`)

async function showDenial({denial, uid, time}) {
	const {operation, path, cause, rules = []} = denial
	const evaluated = rules.filter(({decides}) => decides !== false).map(({rule, kind, line, column, outcome, location, values = []}) => h(".denial",
		h("b", `${visible(rule, 200)} ${kind}`), " at ", h("a", {href: `${link("rules")}?line=${line}&column=${column}`}, `line ${line}:${column}`),
		`, asked for ${visible(location, 200)}: `, h("b.problem", visible(outcome, 200)),
		definitions(values.map(({expression, value}) => [visible(expression, 300), visible(value, 300)]))))
	return dialog({
		title: `Why ${operation} of ${visible(path)} was denied`, wide: true,
		body: [h("p", `${format.moment(time)}, ${userName(uid)}: ${(await causes)[cause]}.`), evaluated],
	})
}

async function why(asked, auth, moment) {
	const uid = auth?.uid ?? null
	const {denials} = await session.inspect("denials")
	const isIt = ({time, uid: denied, denial: {operation, path}}) =>
		Math.abs(time - moment) < NEAR_MS && denied === uid && asked.some(one => one.method === operation && one.path === path)
	const found = denials.find(isIt)
	if (found) return showDenial(found)
	for (const one of asked) {
		const answer = await session.evaluate({...one, auth})
		if (!answer.allowed) return showDenial({time: session.database.now, uid, denial: {...answer, operation: one.method}})
	}
	toast("The rules allow it now.")
}

// A button that shows administrators why the actor was just denied what it asked for: [{method, path, value, query}].
export function whyButton(error, asked) {
	const {isAdmin, actorAuth, database} = session
	const moment = database.now
	return error.code === "permission_denied" && isAdmin && button("Why?", () => why(asked, actorAuth, moment).catch(failed), ".link")
}

export const explain = (error, what, ...asked) => toast(`${what}: ${error.message}`, "error", whyButton(error, asked))

// What reading a path gives; undefined, after a message, where it fails.
export const attempt = (what, path, run) => run().catch(error => explain(error, what, {method: "read", path}))

export function denialPanel() {
	const content = h("div")
	async function look() {
		const {denials} = await session.inspect("denials")
		const {heads, none, ...words} = await causes
		const rows = denials.slice(0, LIST_LIMIT).map(entry => [button("Why?", () => showDenial(entry), ".small"), format.moment(entry.time), userName(entry.uid),
			entry.denial.operation, visible(entry.denial.path, 160), words[entry.denial.cause]])
		showTable(content, heads, rows, none)
	}
	return {element: panel("Latest denials", content), look}
}

// `kinds`: some of "self", "anonymous", "user", "token", with words; `read()` gives an actor or throws what is wrong.
export function userField(kinds) {
	const kind = choice("User", kinds, {onchange: adapt})
	const uid = h("input", {label: "uid", placeholder: "uid"})
	const claims = h("input.path-input.grow", {label: "Claims (JSON)", placeholder: 'claims: {"role": "editor"}'})
	const token = h("input.grow", {type: "password", label: "Token", placeholder: "token"})
	function adapt() {
		uid.hidden = claims.hidden = kind.value !== "user"
		token.hidden = kind.value !== "token"
	}
	function read() {
		const actor = {kind: kind.value}
		if (kind.value === "token") actor.token = token.value.trim()
		if (kind.value === "user") actor.auth = {uid: uid.value, token: parse(claims.value || "{}")}
		if (actor.token === "" || actor.auth?.uid === "") throw new Error("The field is empty.")
		return actor
	}
	function show({kind: shown, auth}) {
		kind.value = shown
		uid.value = auth?.uid ?? ""
		claims.value = auth ? stringify(auth.token ?? {}) : ""
		adapt()
	}
	adapt()
	return {element: h(".together", kind, uid, claims, token), read, show}
}
