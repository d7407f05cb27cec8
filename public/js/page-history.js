import {session, link} from "./session.js"
import {writeParts, journalReader} from "./feed.js"
import {h, fill, button, panel, visible, visibleLines, toast, format} from "./dom.js"
import {join} from "./keys.js"
import {stringify} from "./json.js"
import {differences, diffList, confirmChanges, write} from "./edit.js"

const SETTLE_MS = 200 // after the slider has moved, and after a write
const SLIDER_STEPS = 1000
const PAGE = 100 // writes
const KEPT_WRITES = 1000 // more are asked for again
const SHOWN_UNITS = 100_000 // of a value as text

const title = h("h2.grow")
const thenTitle = h("span")
const slider = h("input.grow", {type: "range", max: SLIDER_STEPS, label: "Moment", oninput: () => go(since + ((end - since) * slider.value) / SLIDER_STEPS)})
const when = h("output")
const field = h("input", {type: "datetime-local", step: 1, label: "Date and time", onchange: () => field.value && go(new Date(field.value).getTime())})
const steps = Object.entries({"−1 d": 86400, "−1 h": 3600, "−1 min": 60}).map(([label, seconds]) => button(label, () => go((at ?? end) - 1000 * seconds), ".small"))
const reach = h("span.hint")
const problem = h("p.problem", {role: "alert"})
const listed = h("ol.writes")
const more = button("Earlier writes", () => journal.now(list().at(-1).sequence))
const value = h("pre.snippet", {tabIndex: 0})
const cut = h("p.hint")
const wrote = h("p.together.writes")
const changesElement = h("div")
const restore = button("Restore…", askRestore, ".primary")
// `at` is the moment that is shown, null for now; `end` is when `now` was read. `past`: writes up to the moment, where `writes` do not reach it.
let keys, at, writes, past, hasMore, now, then, writer, end, since

export const element = h(".page",
	h("section.panel", h(".together", title), h(".together.moment", reach, slider, button("Now", () => go(null))), h(".together.moment", when, steps, field), problem),
	h(".columns", panel("Writes", h(".scroll", {tabIndex: 0, role: "region", label: "Writes"}, listed, more)), panel(thenTitle, [wrote, value, cut]),
		panel("Different now", changesElement, restore)))

export const close = () => journal.stop()

export function show({keys: shownKeys, parameters}) {
	[keys, at, writes, past, hasMore] = [shownKeys, Number(parameters.at) || null, [], [], false]
	now = then = end = undefined
	title.textContent = `History of ${visible(join(keys), 200)}`
	journal.now()
}

const list = () => (past.length ? past : writes)

const journal = journalReader(SETTLE_MS, () => element.isConnected && keys, async (signal, before) => {
	const moment = at
	const ask = parameters => session.history(join(keys), parameters, signal)
	try {
		const answer = await ask({limit: PAGE, ...(before && {before})});
		[now, end, since] = [answer.value, answer.at, answer.since ?? answer.at]
		const add = known => (before ? [...known, ...answer.writes] : mergeWrites(answer))
		if (before && past.length) past = add(past)
		else writes = add(writes)
		if (before) hasMore = answer.more
		const isFar = moment !== null && hasMore && moment < writes.at(-1).time
		const found = moment === null ? answer : await ask({at: moment, limit: isFar && !before ? PAGE : 1});
		[then, writer] = [found.value, moment === null ? writes[0] : found.writes[0]]
		if (!before) past = isFar ? found.writes : []
		problem.textContent = ""
	} catch (error) {
		if (signal.aborted) return
		then = undefined
		problem.textContent = error.message
	}
	if (!signal.aborted) draw()
})

function mergeWrites({writes: latest, more}) {
	const known = writes.findIndex(({sequence}) => sequence === latest.at(-1)?.sequence)
	if (known < 0) hasMore = more
	const merged = [...latest, ...(known < 0 ? [] : writes.slice(known + 1))]
	if (merged.splice(KEPT_WRITES).length) hasMore = true
	return merged
}

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
	const current = list().findIndex(({time}) => at === null || time <= at);
	[...listed.children].forEach((row, number) => (row.firstChild.ariaPressed = number === current))
}

function draw() {
	if (end === undefined) return
	fill(listed, list().map(write => h("li", button(writeParts(write, join(keys)), () => go(write.time)))))
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
