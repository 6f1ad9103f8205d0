"use strict";
// Light or dark: as the reader's system has it, until the reader chooses. On paper, everything is unfolded.

const dark = matchMedia("(prefers-color-scheme: dark)");
const theme = element("button", "theme", document.querySelector(".bar"));
theme.type = "button";

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : dark.matches;
}

function label() {
  theme.textContent = isDark() ? "Light" : "Dark";
  theme.setAttribute("aria-label", isDark() ? "Use light colours" : "Use dark colours");
}

theme.addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  label();
});
dark.addEventListener("change", label);
label();

addEventListener("beforeprint", () => {
  for (const fold of document.querySelectorAll("details")) fold.open = true;
});
