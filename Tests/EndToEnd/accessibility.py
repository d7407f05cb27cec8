"""What a page must have for people who do not see it, or see little: the rules of WCAG 2.1 AA that a program can check."""

# Gives the faults of the document, each as "rule: element".
FAULTS = r"""(() => {
  const faults = [];
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const isShown = (it) => it.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && it.getClientRects().length > 0 && !it.closest("[aria-hidden=true]");
  const say = (rule, it) => faults.push(`${rule}: ${it.outerHTML.slice(0, 140)}`);
  const must = (rule, selector, isGood) => all(selector).filter((it) => isShown(it) && !isGood(it)).forEach((it) => say(rule, it));
  const whole = document.documentElement;
  const textOf = (id) => document.getElementById(id)?.textContent.trim();
  const nameOf = (it) => it.getAttribute("aria-label")?.trim() || it.getAttribute("aria-labelledby")?.split(" ").map(textOf).join("")
    || [...(it.labels ?? [])].map((label) => label.textContent.trim()).join("") || (/^(INPUT|SELECT|TEXTAREA)$/.test(it.tagName) ? "" : it.textContent.trim()) || it.title || it.alt;

  if (!whole.lang) say("the language is named", whole);
  if (!document.title) say("the page has a title", whole);
  if (all("h1").filter(isShown).length !== 1) say("one heading is the first", whole);
  if (all("main").filter(isShown).length !== 1) say("one landmark is the main one", whole);
  must("controls have names", "button, a[href], input, select, textarea, summary, [role=button], [role=menuitem], [role=treeitem], [role=tree], [role=menu], [role=group], [role=region], dialog", nameOf);
  must("images have words", "img, [role=img]", (it) => it.hasAttribute("alt") || nameOf(it));
  must("the order of Tab is that of the page", "[tabindex]", (it) => it.tabIndex <= 0);
  must("no control is in another", "button *, a[href] *", (it) => !it.matches("button, a[href], input, select, textarea, [tabindex='0']"));
  must("lists have items only", "ul, ol", (it) => [...it.children].every((child) => child.tagName === "LI"));
  must("items are in lists", "li", (it) => /^(UL|OL)$/.test(it.parentElement.tagName));
  must("lists of terms have terms", "dl", (it) => [...it.children].every((child) => /^D[TD]$/.test(child.tagName)));
  must("rows of a tree are in a tree", "[role=treeitem]", (it) => it.closest("[role=tree]"));
  must("items of a menu are in a menu", "[role=menuitem]", (it) => it.closest("[role=menu]"));
  must("tables have heads", "table", (it) => it.querySelector("th"));
  for (const name of ["aria-labelledby", "aria-describedby", "aria-controls", "aria-activedescendant"]) {
    must(`${name} leads to an element`, `[${name}]`, (it) => it.getAttribute(name).split(" ").every((id) => document.getElementById(id)));
  }
  const ids = all("[id]").map((it) => it.id);
  for (const it of all("[id]")) if (ids.indexOf(it.id) !== ids.lastIndexOf(it.id)) say("an id is of one element", it);

  let level = 1;
  for (const heading of all("h1, h2, h3, h4, h5, h6").filter(isShown)) {
    const found = Number(heading.tagName[1]);
    if (found > level + 1 && !heading.closest("dialog, aside")) say("headings skip no level", heading);
    level = found;
  }
  must("what scrolls is reached by keys", "body *", (it) => {
    const { overflowY, overflowX } = getComputedStyle(it);
    const scrolls = (/auto|scroll/.test(overflowY) && it.scrollHeight > it.clientHeight + 2) || (/auto|scroll/.test(overflowX) && it.scrollWidth > it.clientWidth + 2);
    return !scrolls || it.tabIndex >= 0 || all("button, a[href], input, select, textarea, summary, [tabindex]", it).some((inside) => isShown(inside) && inside.tabIndex >= 0);
  });

  // Colours: what is behind a text, layer by layer.
  const pixel = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const colour = (text) => {
    pixel.clearRect(0, 0, 1, 1);
    pixel.fillStyle = text;
    pixel.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = pixel.getImageData(0, 0, 1, 1).data;
    return [red, green, blue, alpha / 255];
  };
  const over = (top, below) => [0, 1, 2].map((place) => top[place] * top[3] + below[place] * (1 - top[3]));
  const behind = (it) => {
    const own = colour(getComputedStyle(it).backgroundColor);
    return own[3] === 1 ? own : over(own, it.parentElement && !it.matches("dialog, [popover]") ? behind(it.parentElement) : [255, 255, 255]);
  };
  const luminance = (rgb) => rgb.slice(0, 3).map((part) => part / 255).map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
    .reduce((sum, part, place) => sum + part * [0.2126, 0.7152, 0.0722][place], 0);
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  while (texts.nextNode()) {
    const it = texts.currentNode.parentElement;
    if (seen.has(it) || !texts.currentNode.data.trim() || !isShown(it) || it.closest(":disabled, option, script, style") || parseFloat(getComputedStyle(it).fontSize) === 0) continue;
    seen.add(it);
    const ground = behind(it);
    const { color, fontSize, fontWeight } = getComputedStyle(it);
    const [dark, light] = [luminance(over(colour(color), ground)), luminance(ground)].sort((a, b) => a - b);
    const least = parseFloat(fontSize) >= 24 || (parseFloat(fontSize) >= 18.66 && fontWeight >= 700) ? 3 : 4.5;
    if ((light + 0.05) / (dark + 0.05) < least) say(`text has contrast (${((light + 0.05) / (dark + 0.05)).toFixed(2)})`, it);
    if (!it.closest("main, nav, header, aside, footer, dialog, [role=menu], [role=status], .skip")) say("text is in a landmark", it);
  }
  return faults;
})()"""
