import {h, choice} from "./dom.js"
import {parse, stringify} from "./json.js"

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
