// Light or dark: as the system has it, or as it was chosen.

const KEY = "pando-theme";
const { dataset } = document.documentElement;
dataset.theme = localStorage.getItem(KEY) ?? "";

export function switchTheme() {
	const isDark = dataset.theme ? dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
	localStorage.setItem(KEY, (dataset.theme = isDark ? "light" : "dark"));
}
