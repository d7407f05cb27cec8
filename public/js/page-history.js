import {session, link} from "./session.js"
import {writeParts, journalReader} from "./feed.js"
import {h, fill, button, panel, visible, visibleLines, toast, format} from "./dom.js"
import {join} from "./keys.js"
import {stringify} from "./json.js"
import {differences, diffList, confirmChanges, write} from "./edit.js"

const SETTLE_MS = 200 // after the slider has moved, and after a write
const SLIDER_STEPS = 1000
const PAGE = 100 // writes
const LIST_LIMIT = 1000 // writes: the server gives no more
const SHOWN_UNITS = 100_000 // of a value as text

const title = h("h2.grow")
const thenTitle = h("span")
const slider = h("input.grow", {type: "range", max: SLIDER_STEPS, label: "Moment", oninput: () => go(since + ((end - since) * slider.value) / SLIDER_STEPS)})
const when = h("output")
const field = h("input", {type: "datetime-local", step: 1, label: "Date and time", onchange: () => field.value && go(new Date(field.value).getTime())})
const steps = Object.entries({"−1 d": 86400, "−1 h": 3600, "−1 min": 60}).map(([label, seconds]) => button(label, () => go((at ?? end) - 1000 * seconds), ".small"))
const reach = h("span.hint")
const problem = h("p.problem", {role: "alert"})
const list = h("ol.writes")
const more = button("Earlier writes", () => {
	limit += PAGE
	journal.now()
})
const value = h("pre.snippet", {tabIndex: 0})
const cut = h("p.hint")
const wrote = h("p.together.writes")
const changesElement = h("div")
const restore = button("Restore…", askRestore, ".primary")
// `at`: the moment shown, null for now; `end`: when `now` was read. `writes`: the last `limit`, up to `at` where those up to now don't reach it.
let keys, at, limit, writes, hasMore, now, then, writer, end, since

export const element = h(".page",
	h("section.panel", h(".together", title), h(".together.moment", reach, slider, button("Now", () => go(null))), h(".together.moment", when, steps, field), problem),
	h(".columns", panel("Writes", h(".scroll", {tabIndex: 0, role: "region", label: "Writes"}, list, more)), panel(thenTitle, [wrote, value, cut]),
		panel("Different now", changesElement, restore)))

export const close = () => journal.stop()

export function show({keys: shownKeys, parameters}) {
	[keys, at, limit, writes] = [shownKeys, /^\d{1,14}$/.test(parameters.at) ? Number(parameters.at) : null, PAGE, []]
	now = then = end = undefined
	title.textContent = `History of ${visible(join(keys), 200)}`
	journal.now()
}

const journal = journalReader(SETTLE_MS, () => element.isConnected && keys, async signal => {
	const moment = at
	const ask = parameters => session.history(join(keys), parameters, signal)
	try {
		const answer = await ask({limit});
		[now, end, since] = [answer.value, answer.at, answer.since ?? answer.at]
		const isFar = moment !== null && answer.more && moment < answer.writes.at(-1).time
		const found = moment === null ? answer : await ask({at: moment, limit: isFar ? limit : 1})
		const listed = isFar ? found : answer;
		[then, writer, writes, hasMore] = [found.value, found.writes[0], listed.writes, listed.more && limit < LIST_LIMIT]
		problem.textContent = ""
	} catch (error) {
		if (signal.aborted) return
		then = undefined
		problem.textContent = error.message
	}
	if (!signal.aborted) draw()
})

function go(moment) {
	if (end === undefined) return
	at = moment === null || moment >= end ? null : Math.max(since, Math.floor(moment))
	history.replaceState(null, "", link("history", keys) + (at === null ? "" : `?at=${at}`))
	drawMoment()
	thenTitle.textContent += "…"
	restore.disabled = true
	journal.soon()
}

function drawMoment() {
	const shown = at ?? end
	const words = at === null ? "now" : format.moment(at)
	Object.assign(slider, {value: at === null ? SLIDER_STEPS : ((at - since) / (end - since)) * SLIDER_STEPS, ariaValueText: words})
	field.valueAsNumber = shown - (shown % 1000) - 60000 * new Date(shown).getTimezoneOffset()
	when.textContent = words
	thenTitle.textContent = at === null ? "Now" : "Then"
	reach.textContent = format.moment(since)
	// The write that made what is shown.
	const current = writes.findIndex(({time}) => at === null || time <= at);
	[...list.children].forEach((row, number) => (row.firstChild.ariaPressed = number === current))
}

function draw() {
	if (end === undefined) return
	fill(list, writes.map(write => h("li", button(writeParts(write, join(keys)), () => go(write.time)))))
	more.hidden = !hasMore
	drawMoment()
	const isKnown = then !== undefined
	const changes = isKnown ? differences(then, now, keys) : []
	const text = isKnown && then !== null ? stringify(then, 2) : ""
	restore.disabled = changes.length === 0
	value.textContent = then === null ? "Nothing was here." : visibleLines(text, SHOWN_UNITS)
	cut.textContent = text.length > SHOWN_UNITS ? `The first ${format.bytes(SHOWN_UNITS)} of ${format.bytes(text.length)} are shown.` : ""
	fill(wrote, isKnown && writer && ["written", writeParts(writer, join(keys))])
	fill(changesElement, changes.length ? diffList(changes) : h("p.hint", isKnown ? "Nothing: it is as it was." : ""))
}

async function askRestore() {
	const path = join(keys)
	const label = `Restore ${visible(path)} of ${format.moment(at)}`
	const [before, after] = [now, then]
	if (!(await confirmChanges(label, differences(before, after, keys)))) return
	if (!(await write(label, [{path, before, after}]))) return
	toast("Restored. Undo is under Data.")
	go(null)
}
